"""``bayespoint diagnose``: whether the average that a model holds can be trusted."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import entropy

from bayespoint import Posterior
from bayespoint._support.types import Array
from bayespoint.cli.fitted import (
    Base,
    Classifier,
    base_of,
    class_names,
    facts_of,
    machine_names,
    most_violated,
)
from bayespoint.cli.inputs import load_model
from bayespoint.cli.options import Printing
from bayespoint.cli.output import (
    Output,
    UsageError,
    check_writable,
    exit_codes,
    shown_name,
    shown_path,
)
from bayespoint.cli.verdicts import BAD, FINE, WATCH, verdicts_on
from bayespoint.inference.methods import METHODS
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import counted, printable

COLUMNS = {
    "rhat": ("R-hat", "{:.3f}"), "ess": ("ESS", "{:.0f}"), "bounces": ("bounces", "{:,}"),
    "sweeps": ("sweeps", "{:,}"), "converged": ("converged", "{}"), "change": ("change", "{:.1e}"),
    "bounded": ("bounded", "{}"), "log_evidence": ("log evidence", "{:.1f}"),
    "mean_probability": ("per label", "{:.3f}"), "base_probability": ("by shares", "{:.3f}"),
    "violated": ("violated", "{:,}"),
    "angle_error": ("angle error", "{:.3f}"),
}  # fmt: skip
STYLES = {FINE: "green", WATCH: "yellow", BAD: "red"}
# Machines drawn: those of the worst R-hat, or the first; each needs some 4 inches.
SHOWN_MACHINES = 8
# Machines listed on the terminal, and characters of a class.
LISTED_MACHINES, SHOWN_NAME = 20, 24
SUFFIXES = (".png", ".pdf", ".svg")


def run_diagnose(model_path: Path, printing: Printing, plots: Path | None = None) -> None:
    """Read a model, say what its inference tells about itself, and draw its draws."""
    with exit_codes():
        output = Output(quiet=printing.quiet, json=printing.json)
        if plots is not None:
            if plots.suffix.lower() not in SUFFIXES:
                words = f"must end in one of {', '.join(SUFFIXES)}."
                raise UsageError(f"--plots {shown_path(plots)} {words}")
            check_writable(plots, "--plots", model=model_path)
        classifier = load_model(model_path).classifier
        document = {"model": shown_name(model_path), **diagnosed(classifier)}
        _say(output, document)
        if plots is not None:
            draw_traces(classifier, plots, output)
            document["plots"] = str(plots)
        output.document(document | {"notes": output.notes})


def diagnosed(classifier: Classifier) -> dict[str, Any]:
    """What the inference of a classifier tells about itself, and what to make of it.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
        Fitted.

    Returns
    -------
    dict
        Of plain types: ``machines``, one entry each, ``verdicts``, each with a level
        ("fine", "watch" or "bad") and words, and facts about all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.cli.diagnose import diagnosed
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesPointClassifier(gamma="scale", softness=0.1, inference="perceptron", n_draws=30)
    >>> clf = clf.set_params(random_state=0).fit(X, y)
    >>> [verdict["level"] for verdict in diagnosed(clf)["verdicts"]]
    ['fine', 'fine']
    """
    base = base_of(classifier)
    facts = facts_of(classifier)
    diagnosis = {
        **facts, "n_support": len(base.support_), "n_training_rows": base.trained_.n_samples,
        "machines": _machines(base, facts["inference"]),
        "run": {
            name: [_plain(one) for one in value] if isinstance(value, list) else _plain(value)
            for name, value in base.diagnostics_.items()
            if name in ("drift", "restarts", "flight_seconds", "n_draws", "cells", "moving")
        },
    }  # fmt: skip
    verdicts = [{"level": level, "words": words} for level, words in verdicts_on(diagnosis)]
    return diagnosis | {"verdicts": verdicts}


def _machines(base: Base, inference: str) -> list[dict[str, Any]]:
    """What there is to know about each machine: its class, and one entry of each number."""
    machines: list[dict[str, Any]] = [
        {"class": name, "angle_error": _plain(error)}
        for name, error in zip(machine_names(base), base.bayes_point_error_, strict=True)
    ]
    n_machines = len(machines)
    for name, values in base.diagnostics_.items():
        each_has = isinstance(values, np.ndarray) and values.ndim and len(values) == n_machines
        if each_has and values.size and values.dtype.kind in "biuf":
            each = values.reshape(n_machines, -1)
            each = each.sum(axis=1) if name in ("bounces", "passes") else each[:, 0]
            for machine, value in zip(machines, each, strict=True):
                machine[name] = _plain(value)
    violated = most_violated(base)
    if violated is not None:
        for machine, worst in zip(machines, violated, strict=True):
            machine["violated"] = _plain(worst)
    if inference == "ep":
        _add_evidence(base, machines)
    return machines


def _add_evidence(base: Base, machines: list[dict[str, Any]]) -> None:
    """Add the mean probability of a label by the evidence, and by the shares of the classes."""
    label = base.trained_.label
    for machine, name in zip(machines, machine_names(base), strict=True):
        del machine["angle_error"]  # of draws, which do not decide
        if machine.get("log_evidence") is not None:
            rate = min(machine["log_evidence"] / base.trained_.n_samples, 0.0)
            machine["mean_probability"] = float(np.exp(rate))
        if label is not None:
            share = float(np.mean(label == class_names(base).index(name)))
            machine["base_probability"] = float(np.exp(-entropy([share, 1 - share])))


def _plain(value: Any) -> float | None:
    """Number of a plain type; None where it is none, or not finite."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, int | float) and np.isfinite(value) else None


# ---------------------------------------------------------------------- telling


def _say(output: Output, diagnosis: Mapping[str, Any]) -> None:
    evidence = diagnosis.get("log_evidence")
    output.say(
        f"{diagnosis['model']}: {diagnosis['inference']}"
        + (f" ({printable(diagnosis['reason'], 200)})" if "reason" in diagnosis else "")
        + f", {_way(diagnosis)}, "
        f"{counted(diagnosis['n_support'], 'support point')} of "
        f"{counted(diagnosis['n_training_rows'], 'training row')}"
        + (f", log evidence {evidence:.1f}." if evidence is not None else ".")
    )
    machines = diagnosis["machines"][:LISTED_MACHINES]
    names = [printable(machine["class"], SHOWN_NAME) for machine in machines]
    width = max(7, *map(len, names))
    shown = [column for column in COLUMNS if any(m.get(column) is not None for m in machines)]
    output.say(f"{'machine':<{width}}" + "".join(f"{COLUMNS[c][0]:>14}" for c in shown))
    for name, machine in zip(names, machines, strict=True):
        cells = (_cell(machine.get(c), COLUMNS[c][1]) for c in shown)
        output.say(f"{name:<{width}}" + "".join(f"{cell:>14}" for cell in cells))
    if len(diagnosis["machines"]) > LISTED_MACHINES:
        output.say(f"and {len(diagnosis['machines']) - LISTED_MACHINES} more")
    for verdict in diagnosis["verdicts"]:
        output.say(f"{verdict['level']}: {verdict['words']}", style=STYLES[verdict["level"]])


def _way(diagnosis: Mapping[str, Any]) -> str:
    """Say what the average is taken over."""
    if diagnosis["inference"] == "ep":
        return "in closed form"
    return f"{counted(diagnosis['n_draws'], 'draw')} per machine"


def _cell(value: float | None, form: str) -> str:
    if value is None:
        return "–"
    return ("yes" if value else "no") if isinstance(value, bool) else form.format(value)


def draw_traces(classifier: Classifier, path: Path, output: Output) -> None:
    """Draw the draws of each machine, chain by chain, into an image file.

    Where they are independent, there are no chains to judge: what is shown is the training point
    that a machine is least sure of.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
    path : path
        Ends in .png, .pdf or .svg.
    output : Output
    """
    from matplotlib.figure import Figure

    from bayespoint.displays import PosteriorDisplay
    from bayespoint.displays.trace import LEAST_EXPECTED, inches

    base = base_of(classifier)
    machines, names = _worst(base), machine_names(base)
    posteriors = _posteriors(base, machines)
    height = inches(max(2, posteriors[0].n_chains)) + 0.3
    figure = Figure(figsize=(12, height * len(machines)), layout="constrained")
    axes = figure.subplots(len(machines), 2, squeeze=False)
    # R-hat and ESS say nothing about draws that are independent of each other.
    method = METHODS.get(facts_of(base)["inference"])
    independent = method is not None and method.independent
    for row, machine, draws in zip(axes, machines, posteriors, strict=True):
        summary = _least_sure(draws) if independent else None
        PosteriorDisplay.from_posterior(draws, kind="trace", summary=summary, ax=row)
        title = (
            f"{counted(draws.n_draws, 'independent draw')}, training point that it is least sure of"
            if independent else row[0].get_title()
        )  # fmt: skip
        shown = printable(names[machine], SHOWN_NAME)
        row[0].set_title(f"{shown}: {title}", fontsize=14, parse_math=False)
        few = draws.n_draws // draws.n_chains < 2 * LEAST_EXPECTED  # a histogram of one bar
        if independent or few:
            _without_ranks(row)
    if len(names) > len(machines):
        output.note(f"{len(machines)} of {len(names)} machines are drawn.")
    with warnings.catch_warnings(), replacing(path.resolve()) as stream:
        warnings.simplefilter("ignore")  # letters of a class that the font does not have
        figure.savefig(stream, format=path.suffix.lower()[1:], dpi=110)
    output.say(f"{'Draws' if independent else 'Traces'}: {shown_path(path)}")


def _posteriors(base: Base, machines: list[int]) -> list[Posterior]:
    lacking = UsageError("--plots needs the draws and a kernel; this model does not hold them.")
    if base.kernel == "precomputed":
        raise lacking
    try:
        return [base.posterior(machine) for machine in machines]
    except ValueError:  # a compressed classifier has no draws
        raise lacking from None


def _least_sure(draws: Posterior) -> int:
    """Number of the training point whose outputs are nearest to zero for their spread."""
    spread = draws.outputs.std(axis=0)
    return int(np.argmin(np.abs(draws.outputs.mean(axis=0)) / np.where(spread > 0, spread, np.inf)))


def _without_ranks(row: Array) -> None:
    """Give the room of the histograms to the course of the draws, and their names of the chains."""
    left, right = row
    names = [(tick.get_text(), tick.get_color()) for tick in right.get_yticklabels()]
    for place, (name, colour) in zip(right.get_yticks(), names, strict=True):
        left.annotate(
            f" {name}", (1, place), xycoords=("axes fraction", "data"), color=colour,
            fontsize=13, va="center",
        )  # fmt: skip
    spec = left.get_subplotspec().get_gridspec()[left.get_subplotspec().rowspan.start, :]
    right.remove()
    left.set_subplotspec(spec)


def _worst(base: Base) -> list[int]:
    """Numbers of the machines to draw, in order."""
    n = len(machine_names(base))
    rhat = base.diagnostics_.get("rhat")
    if not isinstance(rhat, np.ndarray) or rhat.shape != (n,) or rhat.dtype.kind != "f":
        rhat = np.zeros(n)
    return sorted(np.argsort(-np.nan_to_num(rhat), kind="stable")[:SHOWN_MACHINES].tolist())
