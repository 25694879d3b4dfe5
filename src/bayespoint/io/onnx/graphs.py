"""What a fitted classifier says about new points, as nodes of a graph.

Follows `estimators.predictors`, `space.links` and `space.decisions` function by function; votes are
kept as logarithms throughout. Everything is computed in double precision: distances in single
precision would lose too many digits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bayespoint._support.types import Array
from bayespoint.estimators.confidence import N_VOTES
from bayespoint.estimators.predictors import (
    BayesPointPredictor,
    GaussianPredictor,
    Predictor,
    VotePredictor,
)
from bayespoint.io.onnx.functions import (
    FARTHEST,
    log_complement,
    log_student_tail,
    log_tail,
)
from bayespoint.io.onnx.machines import Machines
from bayespoint.io.onnx.writer import Writer
from bayespoint.space.decisions import LEAST_PROBABILITY
from bayespoint.space.links import Link

LEAST_LOG = float(np.log(LEAST_PROBABILITY))

# A confidence this near to the threshold (relative, where that is above 1) is the threshold: the
# row that the threshold was taken from must be rejected, whatever the order of summation.
SAME_CONFIDENCE = 1e-9
# Probabilities near 1 differ by what their log-odds, up to 37, make of that, and by rounding.
LARGEST_LOG_ODDS = 37.0
ROUNDING = 4 * float(np.finfo(float).eps)


class ClassifierGraph:
    """Decision function, probabilities, labels and confidences of a classifier at the rows of X."""

    def __init__(self, w: Writer, predictor: Predictor, X: str) -> None:
        self._w, self._predictor = w, predictor
        self._n_classes = len(predictor.log_weight)
        self._votes = not isinstance(predictor, BayesPointPredictor)
        # NaN for rows with NaN or infinity, else zero.
        self._doubt = w.reduce("ReduceSum", w.add("Mul", X, 0.0), 1)
        self._machines = Machines(w, predictor.support, X)
        self._link: Any = getattr(predictor, "link", None)
        odds = self._log_odds() if self._votes else self._scores_of_points()
        self.decision = w.add("Add", odds, self._doubt)  # (n, 1) or (n, n_classes)

    # ------------------------------------------------------------------ what comes out

    def probabilities(self) -> str:
        """Probabilities, (n, n_classes)."""
        w = self._w
        if self._n_classes == 2:
            p = w.add("Sigmoid", self.both_sides())
        else:
            p = w.add("Softmax", self.decision, axis=1)
        return w.add("Add", p, self._doubt)

    def both_sides(self) -> str:
        """One output per class: -f and f for two."""
        if self._n_classes > 2:
            return self.decision
        return self._w.add("Concat", self._w.add("Neg", self.decision), self.decision, axis=1)

    def winners(self) -> str:
        """Numbers of the classes predicted, (n,)."""
        return self._winners_of(self.decision, axis=1)

    def _winners_of(self, outputs: str, axis: int) -> str:
        w = self._w
        if self._n_classes > 2:
            return w.add("ArgMax", outputs, axis=axis, keepdims=0)
        positive = w.cast(w.add("Greater", outputs, 0.0), "INT64")
        return w.add("Squeeze", positive, np.array([axis]))

    def rejected(self, rule: Any, threshold: Any, winners: str) -> str:
        """Whether the confidence is not above the threshold, or that of the label, (n,)."""
        w = self._w
        if np.all(threshold == -np.inf):
            rule = "output"  # any: no row is rejected but those that have NaN
        if callable(rule):
            raise ValueError(
                "confidence is a callable, whose Python code no ONNX graph can hold; fit with "
                "confidence='probability', 'gap', 'output' or 'vote' to export."
            )
        confidence = self._vote_share(winners) if rule == "vote" else self._margin(rule)
        confidence = w.add("Add", confidence, self._doubt)
        limits = np.array([t + _slack(rule, t) for t in np.ravel(threshold).tolist()])
        limit: Any = float(limits[0])
        if np.ndim(threshold):
            limit = w.add("Unsqueeze", w.add("Gather", limits, winners), np.array([1]))
        decided = w.add("Greater", confidence, limit)
        return w.add("Squeeze", w.add("Not", decided), np.array([1]))

    def _margin(self, rule: str) -> str:
        """As `confidence.confidence_of` has it: of the label, without class weights; (n, 1)."""
        w = self._w
        outputs = self.probabilities() if rule == "probability" else self.both_sides()
        if rule == "output":
            return w.reduce("ReduceMax", outputs, 1)
        number = w.add("ArgMax", outputs, axis=1, keepdims=1)
        label = w.add("Equal", number, np.arange(self._n_classes)[None])
        outputs = self._unweighted(rule, outputs)
        best = w.reduce("ReduceMax", w.add("Where", label, outputs, -np.inf), 1)
        if rule == "probability":
            return best
        second = w.reduce("ReduceMax", w.add("Where", label, -np.inf, outputs), 1)
        return w.add("Sub", best, second)

    def _unweighted(self, rule: str, outputs: str) -> str:
        """Probabilities or outputs as they are without class weights."""
        w, log_weight = self._w, self._predictor.log_weight[None]
        if np.ptp(log_weight) == 0:
            return outputs
        if rule == "probability":
            scaled = w.add("Mul", outputs, np.exp(log_weight.min() - log_weight))
            return w.add("Div", scaled, w.reduce("ReduceSum", scaled, 1))
        shift = log_weight if self._n_classes > 2 else log_weight - log_weight[:, ::-1]
        return w.add("Sub", outputs, shift)

    def _vote_share(self, winners: str) -> str:
        """Share of the committee of `confidence.confidence_of` that agrees, (n, 1)."""
        w, predictor = self._w, self._predictor
        if not predictor.n_draws:
            raise ValueError(
                "confidence='vote' needs the draws, and this copy of a classifier holds none; use "
                "the original one."
            )
        # The members that sample_proba draws there.
        coef = predictor.draws(predictor.choose_members(N_VOTES, check_random_state(0)))
        if self._votes:
            said = w.add("ArgMax", self._combined(self._draw_votes(coef)), axis=2, keepdims=0)
        else:
            outputs = w.stack([self._machines.outputs(part) for part in coef], axis=2)
            said = self._winners_of(self._scores(outputs), axis=2)
        agree = w.add("Equal", said, w.add("Unsqueeze", winners, np.array([1])))
        return w.reduce("ReduceMean", w.cast(agree, "DOUBLE"), 1)

    # ------------------------------------------------------------------ Bayes point

    def _scores_of_points(self) -> str:
        return self._scores(self._machines.outputs(self._predictor.bayes_points))

    def _scores(self, outputs: str) -> str:
        """Scores of the link, classes last, moved by class weights."""
        link, log_weight = self._link, self._log_weight()
        offset = np.asarray(link.offset, dtype=np.float64)
        if log_weight is not None:
            offset = offset + (log_weight if self._n_classes > 2 else np.diff(log_weight))
        return self._linear(outputs, link.weights, offset)

    def _linear(self, values: str, weights: Array, offset: Array) -> str:
        w, weights = self._w, np.array(weights, dtype=np.float64)
        return w.add("Add", w.add("MatMul", values, weights.T), np.array(offset, dtype=np.float64))

    def _log_weight(self) -> Array | None:
        log_weight = np.asarray(self._predictor.log_weight, dtype=np.float64)
        if not np.any(log_weight):
            return None
        return np.broadcast_to(log_weight, (self._n_classes,)).copy()

    # ------------------------------------------------------------------ votes

    def _log_odds(self) -> str:
        w = self._w
        if isinstance(self._predictor, GaussianPredictor):
            votes = self._gaussian_votes(self._predictor)
        else:
            shares = w.add("Exp", self._draw_votes(self._predictor.draws()))
            votes = _floored_log(w, w.reduce("ReduceMean", shares, 1, keepdims=0))
        log_p = self._combined(votes)
        if self._n_classes > 2:
            return log_p
        return w.add("MatMul", log_p, np.array([[-1.0], [1.0]]))

    def _combined(self, votes: str) -> str:
        """Log-probabilities from logarithms of votes, classes last."""
        w, noise = self._w, self._predictor.noise
        if self._link is not None:
            votes = self._linked(w.add("Max", votes, LEAST_LOG), self._link)
        votes = w.add("Max", votes, LEAST_LOG)
        if noise and isinstance(self._predictor, VotePredictor):
            p, wrong = w.add("Softmax", votes, axis=-1), noise / (self._n_classes - 1)
            p = w.add("Add", w.add("Mul", p, float(1 - noise - wrong)), float(wrong))
            votes = w.add("Log", p)
        log_weight = self._log_weight()
        if log_weight is not None:
            votes = w.add("Add", votes, log_weight)
        return w.add("LogSoftmax", votes, axis=-1)

    def _linked(self, votes: str, link: Link) -> str:
        """Logarithms of the votes that a link makes of logarithms of votes."""
        weights, offset = link.weights, link.offset
        if self._n_classes == 2:  # of log-odds: scores 0 and w (log yes - log no) + b
            weights, offset = link.weights * [[0.0, 0.0], [-1.0, 1.0]], np.append(0.0, link.offset)
        return self._w.add("LogSoftmax", self._linear(votes, weights, offset), axis=-1)

    def _gaussian_votes(self, held: GaussianPredictor) -> str:
        """Logarithms of votes in closed form, (n, n_classes)."""
        w, votes = self._w, []
        for mean, (reducer, sign) in zip(held.mean, held.reducing(), strict=True):
            known = self._machines.outputs(reducer)
            told = w.add("MatMul", w.add("Mul", known, known), np.asarray(sign, float)[:, None])
            deviation = self._deviation(w.add("Sub", 1.0, told))
            z = w.add("Div", self._machines.outputs(mean[None]), deviation)
            votes += self._two_sided(z, lambda size: log_tail(w, w.add("Min", size, FARTHEST)))
        return w.add("Concat", *votes, axis=1)

    def _draw_votes(self, coef: list[Array]) -> str:
        """Logarithms of the votes of draws, (n, n_draws, n_classes)."""
        w, predictor = self._w, self._predictor
        outputs = [self._machines.outputs(part) for part in coef]
        if not isinstance(predictor, VotePredictor):
            return self._span_votes(outputs)
        whitener = predictor.whitening()
        inside = self._machines.outputs(whitener)
        told = w.reduce("ReduceSum", w.add("Mul", inside, inside), 1)
        deviation = self._deviation(w.add("Sub", 1.0, told))
        rank, votes = len(whitener), []
        for part in outputs:
            u = w.add("Div", part, deviation)
            votes += self._two_sided(u, lambda size: log_student_tail(w, size, rank))
        return w.stack(votes, axis=2)

    def _span_votes(self, outputs: list[str]) -> str:
        """Each draw says one class; halves where an output of two is zero."""
        w, stacked = self._w, self._w.stack(outputs, axis=2)
        if self._n_classes > 2:
            best = w.add("ArgMax", stacked, axis=2, keepdims=1)
            said = w.add("Equal", best, np.arange(self._n_classes)[None, None])
            return w.add("Where", said, 0.0, LEAST_LOG)
        sign = w.add("Sign", w.add("Concat", w.add("Neg", stacked), stacked, axis=2))
        return _floored_log(w, w.add("Mul", w.add("Add", sign, 1.0), 0.5))

    def _deviation(self, variance: str) -> str:
        """Deviation of what the training points leave open, softness included."""
        w = self._w
        variance = w.add("Add", w.add("Max", variance, 0.0), float(self._predictor.softness))
        return w.add("Sqrt", w.add("Max", variance, float(np.finfo(float).tiny)))

    def _two_sided(self, z: str, tail_of: Callable[[str], str]) -> list[str]:
        """Logarithms of P(no) and P(yes), or of P(yes) alone where each class has a machine."""
        w = self._w
        tail = tail_of(w.add("Abs", z))
        rest, positive = log_complement(w, tail), w.add("Greater", z, 0.0)
        yes = w.add("Where", positive, rest, tail)
        return [yes] if self._n_classes > 2 else [w.add("Where", positive, tail, rest), yes]


def _floored_log(w: Writer, p: str) -> str:
    return w.add("Log", w.add("Max", p, LEAST_PROBABILITY))


def _slack(rule: str, threshold: float) -> float:
    """How far above the threshold a confidence is still the threshold."""
    if not np.isfinite(threshold):
        return 0.0
    if rule == "probability":
        return SAME_CONFIDENCE * min(1.0, LARGEST_LOG_ODDS * abs(1.0 - threshold)) + ROUNDING
    return SAME_CONFIDENCE * max(1.0, abs(threshold))
