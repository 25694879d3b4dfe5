"""What a fit settles before it draws: method, decision, and the settings of the model."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bayespoint.estimators.calibration import link_points
from bayespoint.estimators.parameters import by_evidence, by_held_out, check_fits, class_noise
from bayespoint.estimators.selection import (
    EVIDENCE_POINTS,
    Settings,
    choose,
    choose_by_errors,
    choose_held_out,
    evidence_points,
)
from bayespoint.inference.methods import METHODS
from bayespoint.space.decisions import fit_link, link, winners
from bayespoint.space.kernels import scale_gamma
from bayespoint.space.merging import contested

# Settings that the evidence can choose, and the share of max_time that may take.
CHOSEN_SETTINGS = ("gamma", "bias", "softness", "label_noise")
CHOOSING_SHARE = 0.3

# Softness while it is not chosen yet, and draws of perceptrons that are tried.
FIRST_SOFTNESS = 0.1
TRIED_DRAWS = 10

# Share of errors, times the square root of the number of points, that tells widths apart: half a
# standard error where one label in twenty is wrong.
SLACK = 0.5 * np.sqrt(0.05 * 0.95)

# EP is chosen where its sweeps, those of the search for settings included, take at most so many
# operations: some seconds.
PROPAGATION_WORK = 6e10
FIT_SWEEPS, SEARCH_SWEEPS = 7, 85  # of 2/3 m³ and 2/3 min(m, EVIDENCE_POINTS)³ each

# Decisions by the probability of the whole posterior.
VOTING = ("vote", "calibrated")


class SettlingMixin:
    """How a `BayesPointClassifier` finds what its parameters leave open."""

    if TYPE_CHECKING:  # parameters and fitted attributes are the classifier's
        _chosen_noise_: np.ndarray

        def __getattr__(self, name: str) -> Any: ...

    def _choose_inference(self, points, itemsize):
        """Settle method and decision, and check that their memory is within ``cache_size``."""
        n_points, n_classes = len(points.label), len(self.classes_)
        n_machines = n_classes if n_classes > 2 else 1
        self.inference_, self.inference_reason_ = self.inference, "asked for"
        if self.inference == "auto":
            self.inference_, self.inference_reason_ = self._suited(n_points, n_machines, itemsize)
        self._decision_ = self.decision
        if self.decision == "auto":
            self._decision_ = "bayes_point" if self.inference_ == "perceptron" else "vote"
            if self.inference == "auto" and self.inference_ == "ep":
                self._decision_ = "calibrated"
        if self._decision_ == "calibrated" and self.inference_ != "ep":
            raise ValueError(
                f"decision='calibrated' needs the leave-one-out outputs of inference='ep'; got "
                f"inference={self.inference_!r} ({self.inference_reason_}). Use decision='vote' "
                f"or 'bayes_point'."
            )
        votes = self._decision_ in VOTING
        needed = METHODS[self.inference_].needed_bytes(n_points, itemsize, votes * n_machines) / 1e6
        what = f"inference={self.inference_!r} ({self.inference_reason_})"
        remedy = "inference='perceptron' with label_noise=0"
        # On a GPU rows and factor are on the card, which has its own limits.
        if self.device_ != "cpu" and self.inference_ != "ep":
            needed = 0.0
        if votes:  # K, its factor, and what the inverse is solved from
            needed = max(needed, 4 * 8 * n_points**2 / 1e6)
            what = f"decision={self._decision_!r} with {what}"
            remedy = f"decision='bayes_point', or {remedy}"
        if needed > self.cache_size:
            raise ValueError(
                f"{what} needs {needed:.1f} MB for {n_points} distinct training points; got "
                f"cache_size={self.cache_size}. Raise cache_size, or use {remedy}."
            )

    def _suited(self, n_points, n_machines, itemsize):
        """Method for this many points, and why."""
        needed = METHODS["ep"].needed_bytes(n_points, itemsize, n_machines) / 1e6
        little = f"little memory for EP ({needed:.0f} MB)" if needed > self.cache_size else ""
        cubes = FIT_SWEEPS * n_points**3 + SEARCH_SWEEPS * min(n_points, EVIDENCE_POINTS) ** 3
        if n_machines * cubes * 2 / 3 <= PROPAGATION_WORK and needed <= self.cache_size:
            return "ep", "few points, which expectation propagation takes seconds for"
        if by_evidence(self.label_noise) or np.any(self._class_noise_):
            reason = "and label_noise > 0, which perceptrons cannot take into account"
            return "billiard", f"{little or 'many points'}, {reason}"
        return "perceptron", f"{little or 'many points'}, and perceptrons are the fastest"

    def _set_noise(self, label_noise):
        self._class_noise_ = class_noise(label_noise, self.classes_)
        equal = np.all(self._class_noise_ == self._class_noise_[0])
        self.label_noise_ = float(self._class_noise_[0]) if equal else self._class_noise_
        self._noise_ = float(np.average(self._class_noise_, weights=self._class_share_))

    def _settle(self, distinct, points, held, budget, threads):
        """Set gamma, bias, softness and label noise, from the data where that is asked for."""
        if held is not None and self.inference_ != "ep":
            if by_evidence(self.label_noise):
                self._set_noise(self._chosen_noise_)
            return  # as they were when the held draws were made
        self.__dict__.pop("log_evidence_", None)  # of an earlier fit
        given = {name: getattr(self, name, 0.0) for name in CHOSEN_SETTINGS}
        evidence = [name for name, value in given.items() if by_evidence(value)]
        held_out = [name for name, value in given.items() if by_held_out(value)]
        if not isinstance(self.kernel, str) or self.kernel not in ("rbf", "laplacian", "poly"):
            evidence, held_out = (
                [n for n in names if n != "gamma"] for names in (evidence, held_out)
            )
        named, scale = isinstance(self.gamma, str), 1.0
        if (
            self.gamma == "scale" and self.kernel != "precomputed"
        ) or "gamma" in evidence + held_out:
            scale = scale_gamma(distinct, points.weight)
        self.gamma_ = scale if named else float(self.gamma)
        check_fits(self.gamma_, "gamma", distinct.dtype)
        # A bias helps to tell two classes apart; one against the rest, each has its own noise, and
        # kernels that see distances do without.
        local = isinstance(self.kernel, str) and self.kernel in ("rbf", "laplacian")
        auto = 0.0 if local and len(self.classes_) > 2 else 1.0
        self.bias_ = auto if isinstance(self.bias, str) else float(self.bias)
        self.softness_ = FIRST_SOFTNESS if isinstance(self.softness, str) else float(self.softness)
        if evidence or held_out:
            self._check_origin(self._lengths(self._new_kernel(distinct), distinct), points)
            chosen = evidence_points(points.label, self._entropy_)
        if evidence:
            # What held-out labels choose later is free, too.
            self._choose(choose, evidence + held_out, distinct, points, chosen, scale, budget)
            if held_out:  # with other settings it would be another
                del self.log_evidence_
        if held_out and self.inference_ == "perceptron":
            self._choose_by_errors(held_out, distinct, points, scale, budget, threads)
        elif held_out:
            alone = ~contested(points)[chosen]
            search = partial(choose_held_out, noise=self._noise_, alone=alone)
            self._choose(search, held_out, distinct, points, chosen, scale, budget)

    def _choose(self, search, names, distinct, points, chosen, scale, budget):
        found = search(
            self._kernel_of(self.gamma_, self.bias_), self._restricted(distinct, chosen),
            points.label[chosen], points.weight[chosen], self._settings_now(), names, scale=scale,
            stop=self._late(budget),
        )  # fmt: skip
        self._take(found.settings, names)
        if search is choose:
            self.log_evidence_ = found.log_evidence

    def _choose_by_errors(self, names, distinct, points, scale, budget, threads):
        """Compare settings by the errors of perceptrons on points left out."""
        chosen = link_points(points.label, self._entropy_)
        part, label, weight = (
            self._restricted(distinct, chosen),
            points.label[chosen],
            points.weight[chosen],
        )
        subset = points._replace(label=label, weight=weight, row=points.row[chosen])

        def trial(settings):
            self._take(settings, names)
            problem = self._problem(self._new_kernel(part), part, subset, threads)
            with budget.silent():
                known, outputs = self._held_out_outputs(problem, label, TRIED_DRAWS, budget)
            truth, copies = label[known], weight[known]
            proba = link(outputs, fit_link(outputs, truth, copies))
            right = np.maximum(proba[np.arange(len(truth)), truth], np.finfo(float).tiny)
            wrong = np.average(winners(outputs) != truth, weights=copies)
            return float(wrong), float(-np.average(np.log(right), weights=copies))

        # More points, as the fit will have, favour narrower kernels: among widths that can hardly
        # be told apart by so few, the narrowest.
        few = len(chosen) < len(points.label)
        best = choose_by_errors(
            trial, self._settings_now(), names, scale=scale,
            slack=SLACK / np.sqrt(len(chosen)) if few else 0.0, stop=self._late(budget),
        )  # fmt: skip
        self._take(best, names)

    def _settings_now(self):
        return Settings(self.gamma_, self.bias_, self.softness_, self._class_noise_)

    def _take(self, settings, names):
        self.gamma_, self.bias_, self.softness_ = settings[:3]
        if "label_noise" in names:
            self._set_noise(settings.label_noise)
            self._chosen_noise_ = self._class_noise_

    def _late(self, budget):
        """Return what says whether the share of time for choosing settings is over."""
        limit = np.inf if self.max_time is None else CHOOSING_SHARE * self.max_time

        def late():
            budget.show(0, 1, "choosing settings,")
            return budget.interrupted or budget.elapsed() > limit

        return late
