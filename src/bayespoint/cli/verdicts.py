"""What to make of the numbers that an inference tells about itself, in plain words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bayespoint.inference.billiard.chains import UNMIXED
from bayespoint.inference.ep.cells.method import MOST_MOVING
from bayespoint.io.tables import counted
from bayespoint.io.tables.table import listed

FINE, WATCH, BAD = "fine", "watch", "bad"

# Level and words.
Verdict = tuple[str, str]
Machines = Sequence[Mapping[str, Any]]

# Four chains of 25 independent draws exceed 1.1 in 4 of 1,000 trials, 1.2 (UNMIXED) in none.
WATCHED_RHAT = 1.1
# A share of votes is known to 0.5 / sqrt(ESS): to 0.1 with 25 effective draws, 0.07 with 50.
LEAST_ESS, WATCHED_ESS = 25, 50
# An angle of 0.3 radians between two Bayes points has the cosine 0.955: outputs differ by 0.3 at
# most, and labels of points with smaller ones may change; of 0.6, the cosine 0.83.
WATCHED_ANGLE, WORST_ANGLE = 0.3, 0.6
# Outputs are followed bounce by bounce in float64: 1e-14 is usual, and from 1e-7 on balls are lost
# (billiard.balls.LOST).
WORST_DRIFT = 1e-7
# A ball that rounding leads out of its cell flies again; more than one in a hundred bounces tells
# of walls that meet at angles too small for float64.
MANY_RESTARTS = 0.01
# Mean probability of a label where the shares of the classes are not known: that of a coin.
COIN = 0.5


def verdicts_on(diagnosis: Mapping[str, Any]) -> Iterator[Verdict]:
    """Yield (level, words) on all that can be judged."""
    if "cells" in diagnosis.get("run", {}):
        yield from _on_cells(diagnosis["run"], diagnosis["machines"])
    elif diagnosis["inference"] == "ep":
        yield from _on_propagation(diagnosis["machines"])
    if any("rhat" in machine for machine in diagnosis["machines"]):
        yield from _on_chains(diagnosis)
    if any("violated" in machine for machine in diagnosis["machines"]):
        yield _on_perceptrons(diagnosis["machines"])
    if diagnosis["inference"] != "ep":
        yield _on_angles(diagnosis["machines"])


def _on_propagation(machines: Machines) -> Iterator[Verdict]:
    needed = ("sweeps", "converged", "bounded", "mean_probability")
    if any(m.get(name) is None for m in machines for name in needed):
        yield WATCH, "the model has no record of how expectation propagation ran."
        return
    moving = [m for m in machines if not m["converged"]]
    bounded = [m for m in machines if m["bounded"]]
    if moving:
        words = f"expectation propagation has not converged for {_named(moving)}: probabilities "
        yield BAD, words + "may be off. Raise --max-time, or use --inference billiard."
    else:
        most = max(m["sweeps"] for m in machines)
        yield FINE, f"expectation propagation has converged, in {most} sweeps at most."
    if bounded:
        words = f"sites had to be bounded for {_named(bounded)}: the approximation is rougher "
        yield WATCH, words + "there. Compare with --inference billiard."
    yield _on_evidence(machines)


def _on_cells(run: Mapping[str, Any], machines: Machines) -> Iterator[Verdict]:
    cells, moving = (int(np.sum(run[name])) for name in ("cells", "moving"))
    of = f"{cells} cells of {counted(len(run['cells']), 'tree')}"
    if moving > MOST_MOVING * cells * len(machines):
        words = f"{of}: {moving} of all machines have not converged, and probabilities may be "
        yield BAD, words + "off. Raise --max-time."
    else:
        yield FINE, f"{of} have converged{', except for a few' if moving else ''}."
    yield _on_evidence(machines)


def _on_evidence(machines: Machines) -> Verdict:
    blind = [m for m in machines if m["mean_probability"] < m.get("base_probability", COIN)]
    if blind:
        worst = min(blind, key=lambda machine: machine["mean_probability"])
        return BAD, (
            f"evidence: labels have a mean probability of {worst['mean_probability']:.3f} for "
            f"{_named(blind)}, no better than the shares of the classes. The columns may not tell "
            f"the classes apart."
        )
    least = min(machines, key=lambda machine: machine["mean_probability"])
    return FINE, (
        f"evidence: labels have a mean probability of {least['mean_probability']:.3f} or more (by "
        f"the shares of the classes alone: {least.get('base_probability', COIN):.3f})."
    )


def _on_chains(diagnosis: Mapping[str, Any]) -> Iterator[Verdict]:
    machines = diagnosis["machines"]
    known = [m for m in machines if m.get("rhat") is not None]
    if not known:
        yield WATCH, "too few draws to compare chains: raise --n-draws."
    else:
        worst = max(m["rhat"] for m in known)
        level = _level(worst, WATCHED_RHAT, UNMIXED)
        agreement = {
            FINE: "the chains agree", WATCH: "the chains agree roughly; raise --n-draws to be sure",
            BAD: "the chains do not agree: draws depend on where they began. Raise --n-draws"
            + (", or use --inference billiard" if diagnosis["inference"] == "gibbs" else ""),
        }  # fmt: skip
        yield level, f"R-hat {worst:.3f} at worst: {agreement[level]}."
    sizes = [m["ess"] for m in machines if m.get("ess") is not None]
    if sizes:
        least = min(sizes)
        level = _level(-least, -WATCHED_ESS, -LEAST_ESS)
        advice = "" if level == FINE else " Raise --n-draws."
        error = 0.5 / np.sqrt(max(least, 1))
        words = f"effective draws: {least:.0f} at least; a share of votes is known to about "
        yield level, words + f"{error:.2f}.{advice}"
    yield from _on_flights(diagnosis)


def _on_flights(diagnosis: Mapping[str, Any]) -> Iterator[Verdict]:
    drift, restarts = diagnosis["run"].get("drift"), diagnosis["run"].get("restarts")
    if drift is not None:
        if drift > WORST_DRIFT:
            words = f"rounding moved outputs by {drift:.1e}: the Gram matrix is nearly "
            yield BAD, words + "singular, as with rows that are almost copies. Use --inference ep."
        else:
            yield FINE, f"rounding moved outputs by {drift:.1e} at most."
    bounces = sum(m.get("bounces") or 0 for m in diagnosis["machines"])
    if restarts:
        level = WATCH if restarts > MANY_RESTARTS * max(bounces, 1) else FINE
        words = f"{restarts:,} flights were done again, as rounding led them out of their cell "
        yield level, words + f"(of {bounces:,} bounces)."


def _on_perceptrons(machines: Machines) -> Verdict:
    left = [m for m in machines if m.get("violated")]
    if left:
        return BAD, (
            f"some perceptrons still make training errors for {_named(left)}: the time was up. "
            f"Raise --max-time."
        )
    return FINE, "every perceptron has learned all training points (with the softness)."


def _on_angles(machines: Machines) -> Verdict:
    known = [m["angle_error"] for m in machines if m["angle_error"] is not None]
    if not known:
        return WATCH, "the error of the Bayes point is not known: there are too few draws."
    worst = max(known)
    level = _level(worst, WATCHED_ANGLE, WORST_ANGLE)
    advice = "" if level == FINE else " Raise --n-draws."
    return level, (
        f"the Bayes point is known to an angle of {worst:.3f} radians (cosine "
        f"{np.cos(min(worst, np.pi / 2)):.3f}).{advice}"
    )


def _level(value: float, watched: float, worst: float) -> str:
    return BAD if value > worst else WATCH if value > watched else FINE


def _named(machines: Machines) -> str:
    """Machines by their class, the first of many."""
    return listed((machine["class"] for machine in machines), 3)
