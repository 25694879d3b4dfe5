"""How far probabilities can be trusted: our inferences and decisions on Rätsch's 13 sets.

    python benchmarks/tabular.py [--splits N] [--sets ...] [--arms ...] [--jobs N] [--json FILE]
                                 [--read FILE ...] [--figure FILE]

Means over sets, and a figure of how often what they say is true (needs matplotlib). Splits 1 to 20
where there are 100, 1 to 10 of image and splice. Every fit has one thread, and --jobs of them run
at a time. What every fit gave goes to --json as it comes; --read prints such files together and
runs nothing. Splits share points: true standard errors are somewhat larger than those over splits.

Data sets come from the folder named in BAYESPOINT_DATA.
"""

import os

os.environ |= dict.fromkeys((f"{s}_NUM_THREADS" for s in ("OMP", "OPENBLAS", "MKL", "NUMBA")), "1")

import argparse
import json
import multiprocessing
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import make_moons

from bayespoint import BayesPointClassifier
from bayespoint.displays.style import COLOURS
from bayespoint.papers.datasets import RAETSCH, raetsch, raetsch_splits
from bayespoint.papers.reproduction.tools import stderr

SMALLEST = 1e-12  # probability that log-loss counts with
ECE_BINS = 15  # of equal mass
FIGURE_BINS = 10
FIGURE_ARMS = {
    "ep-calibrated": "EP, calibrated votes (default)", "ep-vote": "EP, votes",
    "perceptron-vote": "perceptrons, votes",
}  # fmt: skip
LEAST_IN_BIN = 20  # cases of a set, for its dot to say something

# Factor and digits that each measure is printed with.
MEASURES = {"error": (100, 2), "log_loss": (1, 4), "brier": (1, 4), "ece": (100, 2)}


VARIANTS = {
    f"{i}-{d}": partial(BayesPointClassifier, inference=i, decision=d, random_state=0)
    for i, d in (
        ("ep", "calibrated"), ("ep", "vote"), ("ep", "bayes_point"), ("billiard", "vote"),
        ("perceptron", "bayes_point"), ("perceptron", "vote"),
    )
}  # fmt: skip


def warm_up():
    """Compile ahead of the first fit that is timed."""
    X, y = make_moons(60, noise=0.5, random_state=0)
    BayesPointClassifier(random_state=0).fit(X, y).predict_proba(X)


def scores(y, predicted, p):
    """Measures of predicted labels and of probabilities p of the label +1."""
    positive = y == 1
    mass = ((rankdata(p) - 0.5) * ECE_BINS / len(p)).astype(int)  # equal values share a bin
    gaps = np.bincount(mass, weights=p - positive)
    bins = np.minimum((p * FIGURE_BINS).astype(int), FIGURE_BINS - 1)
    return {
        "error": np.mean(predicted != y),
        "log_loss": -np.mean(np.log(np.maximum(np.where(positive, p, 1 - p), SMALLEST))),
        "brier": np.mean((p - positive) ** 2),
        "ece": np.abs(gaps).sum() / len(p),
        "bins": [np.bincount(bins, w, FIGURE_BINS).tolist() for w in (None, p, 1.0 * positive)],
    }


def measured(clf, X, y, X_test, y_test):
    clf.fit(X, y)
    return scores(y_test, clf.predict(X_test), clf.predict_proba(X_test)[:, 1])


def run(name, split, arm):
    """Fit and score one arm on one split; a failure is told, not raised."""
    clf = VARIANTS[arm]()
    row, failures = {"set": name, "split": split, "arm": arm}, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            row |= measured(clf, *raetsch(name, split))
        except Exception as error:
            row |= dict.fromkeys(MEASURES, np.nan)
            row["bins"] = np.zeros((3, FIGURE_BINS)).tolist()
            failures = [f"failed, {error!r}"]
    names = ("gamma_", "softness_", "inference_")
    found = {name: getattr(clf, name) for name in names if hasattr(clf, name)}
    row |= {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}
    return row | {"warnings": failures + [w.category.__name__ for w in caught]}


def all_rows(arms, options):
    jobs = []
    for name in sorted(options.sets, key=lambda name: -len(raetsch(name, 1)[0])):  # long ones first
        most = 20 if raetsch_splits(name) == 100 else 10
        splits = range(1, min(options.splits or most, most) + 1)
        jobs += [(name, split, arm) for split in splits for arm in arms]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context, initializer=warm_up) as pool:
        for job in as_completed([pool.submit(run, *job) for job in jobs]):
            yield job.result()


def by_set_and_arm(rows, arms):
    """{set: {arm: rows in the order of splits}}, of the splits that all arms have."""
    found = {(row["set"], row["split"], row["arm"]): row for row in rows}
    results: dict = {}
    for name, split in sorted({key[:2] for key in found}):
        group = {arm: found.get((name, split, arm)) for arm in arms}
        if all(group.values()):
            for arm, row in group.items():
                results.setdefault(name, {}).setdefault(arm, []).append(row)
    return results


def columns(results, arm, measure, less=None):
    """Values of each set, by split; those of another arm taken off."""
    return [
        np.array([row[measure] for row in arms[arm]])
        - (np.array([row[measure] for row in arms[less]]) if less else 0)
        for arms in results.values()
    ]


def summary(per_set):
    """Mean over sets; its standard error over splits, and over sets."""
    means = np.array([np.mean(each) for each in per_set])
    errors = [stderr(each) if len(each) > 1 else np.nan for each in per_set]
    over_sets = stderr(means) if len(means) > 1 else np.nan
    return np.array([means.mean(), np.linalg.norm(errors) / len(errors), over_sets])


def calibration(results, arms, options):
    print(f"Mean of {len(results)} sets; in brackets less {arms[0]} ± standard error over splits")
    print(f"{'arm':22}" + "".join(f"{measure:>10}{'':18}" for measure in MEASURES))
    for arm in arms:
        line = f"{arm:22}"
        for measure, (factor, digits) in MEASURES.items():
            value = factor * summary(columns(results, arm, measure))[0]
            mean, error, _ = factor * summary(columns(results, arm, measure, arms[0]))
            line += f"{value:10.{digits}f} {f'({mean:+.{digits}f} ± {error:.{digits}f})':17}"
        print(line.rstrip())
    figure(results, arms, options.figure)


def figure(results, arms, path):
    """A panel for each of some arms: how often what it says is true, over all sets and in each."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(f"No {path}: matplotlib is not installed")
        return
    shown = [arm for arm in FIGURE_ARMS if arm in arms] or arms[:3]
    fig = Figure(figsize=(3.6 * len(shown), 4.1), layout="constrained")
    axes = fig.subplots(1, len(shown), squeeze=False, sharex=True, sharey=True)[0]
    for ax, arm, colour in zip(axes, shown, COLOURS, strict=False):
        ax.plot([0, 100], [0, 100], color="black", lw=1, ls=":", label="exactly right")
        bins = [100 * reliability(arms_[arm]) for arms_ in results.values()]
        for k, (_, said, true) in enumerate(bins):
            ax.plot(said, true, color="0.8", lw=1, label=None if k else "one of the sets")
        share, said, true = np.moveaxis(bins, 1, 0)
        weight = np.where(np.isnan(said), 0, share)
        said, true = (np.nansum(weight * v, axis=0) / weight.sum(axis=0) for v in (said, true))
        ax.plot(said, true, color=colour, lw=2.5, marker="o", ms=6, label="all sets")
        error = 100 * summary(columns(results, arm, "ece"))[0]
        told = f"mean calibration error\n{error:.1f} %"
        ax.text(97, 2, told, ha="right", va="bottom", bbox={"color": "white", "pad": 1})
        ax.set(title=FIGURE_ARMS.get(arm, arm), xlabel="probability of +1, in %", aspect="equal")
    axes[0].set_ylabel("cases that are +1, in %")
    axes[0].legend(loc="upper left", frameon=False, fontsize=9)
    fig.savefig(path, dpi=150)
    print(f"Reliability over {len(results)} sets: {path}")


def reliability(rows):
    """Of each bin the share of the cases, their mean probability and how many are +1; or NaN."""
    count, p, positive = sum(np.array(row["bins"]) for row in rows)
    few = count < LEAST_IN_BIN
    with np.errstate(invalid="ignore"):
        said, true = (np.where(few, np.nan, values / count) for values in (p, positive))
    return np.array([count / count.sum(), said, true])


def troubles(rows):
    """Print warnings and failures, counted."""
    told = Counter((row["arm"], row["set"], what) for row in rows for what in row["warnings"])
    for (arm, name, what), count in sorted(told.items()):
        print(f"{arm} on {name}: {what}, {count} times")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--splits", type=int, help="the first N only")
    parser.add_argument("--sets", nargs="+", choices=RAETSCH, default=list(RAETSCH))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--arms", nargs="+", choices=list(VARIANTS))
    parser.add_argument("--json", help="file for what every fit gave")
    parser.add_argument("--figure", default="reliability.png")
    parser.add_argument("--read", nargs="+", default=[], help="such files, printed together")
    options = parser.parse_args()
    rows = [row for file in options.read for row in json.loads(Path(file).read_text())]
    begun = time.perf_counter()
    arms = [arm for arm in VARIANTS if not options.arms or arm in options.arms]
    for row in () if options.read else all_rows(arms, options):
        rows.append(row)
        if options.json:
            Path(f"{options.json}.new").write_text(json.dumps(rows))
            os.replace(f"{options.json}.new", options.json)
    rows = [row for row in rows if row["set"] in options.sets]
    arms = [arm for arm in arms if any(row["arm"] == arm for row in rows)]
    if results := by_set_and_arm(rows, arms):
        calibration(results, arms, options)
        troubles(row for row in rows if row["arm"] in arms)
    print(f"[{time.perf_counter() - begun:.0f} s]", flush=True)


if __name__ == "__main__":
    main()
