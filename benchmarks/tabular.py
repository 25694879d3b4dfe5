"""Defaults against tuned classifiers on Rätsch's 13 sets, and how far probabilities can be trusted.

    python benchmarks/tabular.py [--part compare calibration] [--splits N] [--sets ...] [--jobs N]
                                 [--arms ...] [--json FILE] [--read FILE ...] [--figure FILE]

- compare: ours (defaults) beside svc (gamma x C, 6 x 6, five folds; probabilities by Platt's
  sigmoid, five folds), gp (GaussianProcessClassifier, one length scale, by evidence), logistic (C
  by log-loss of five folds) and boosting (HistGradientBoostingClassifier).
- calibration: our inferences and decisions on the same splits, averaged over sets, and a figure of
  how often what they say is true (needs matplotlib).

Splits 1 to 20 where there are 100, 1 to 10 of image and splice. Every fit has one thread, and
--jobs of them run at a time. What every fit gave goes to --json as it comes; --read prints such
files together and runs nothing. Seconds of svc are those of the grid search, its sigmoid's apart.
Splits share points: the true standard errors are somewhat larger than those over splits.

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
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier, kernels
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, aurc
from bayespoint.displays.style import COLOURS
from bayespoint.papers.datasets import RAETSCH, raetsch, raetsch_splits
from bayespoint.papers.reproduction.tools import stderr

GAMMA_FACTORS = (1 / 32, 1 / 8, 1 / 2, 2, 8, 32)  # times 1 / (n_features * variance)
SVC_C = (0.1, 1, 10, 100, 1_000, 10_000)
LOGISTIC = {"param_grid": {"C": (0.001, 0.01, 0.1, 1, 10, 100)}, "cv": 5, "scoring": "neg_log_loss"}

SMALLEST = 1e-12  # probability that log-loss counts with
ECE_BINS = 15  # of equal mass
FIGURE_BINS = 10
FIGURE_ARMS = {
    "ep-calibrated": "EP, calibrated votes (default)", "ep-vote": "EP, votes",
    "perceptron-vote": "perceptrons, votes",
}  # fmt: skip
LEAST_IN_BIN = 20  # cases of a set, for its dot to say something

# Title, factor and digits that each measure is printed with.
MEASURES = {
    "error": ("Error, %", 100, 2), "log_loss": ("Log-loss", 1, 4), "aurc": ("AURC, %", 100, 3),
    "brier": ("Brier score", 1, 4), "ece": ("Expected calibration error, %", 100, 2),
    "seconds": ("Fit, s", 1, 2),
}  # fmt: skip


def ours(_, **settings):
    return BayesPointClassifier(random_state=0, **settings)


def svc(X):
    scale = 1 / (X.shape[1] * X.var())
    grid = {"gamma": [scale * factor for factor in GAMMA_FACTORS], "C": SVC_C}
    return GridSearchCV(SVC(), grid, cv=5)


COMPARED = {
    "ours": ours,
    "svc": svc,
    "gp": lambda X: GaussianProcessClassifier(1.0 * kernels.RBF(np.sqrt(X.shape[1]))),
    "logistic": lambda _: GridSearchCV(LogisticRegression(max_iter=5000), **LOGISTIC),
    "boosting": lambda _: HistGradientBoostingClassifier(random_state=0),
}
VARIANTS = {
    f"{i}-{d}": partial(ours, inference=i, decision=d, gamma="held-out", softness="held-out")
    for i, d in (
        ("ep", "calibrated"), ("ep", "vote"), ("ep", "bayes_point"), ("billiard", "vote"),
        ("perceptron", "bayes_point"), ("perceptron", "vote"),
    )
}  # fmt: skip
ARMS = {"compare": COMPARED, "calibration": VARIANTS}


def warm_up():
    """Compile ahead of the first fit that is timed."""
    X, y = make_moons(60, noise=0.5, random_state=0)
    ours(X).fit(X, y).predict_proba(X)


def scores(y, predicted, p):
    """Measures of predicted labels and of probabilities p of the label +1."""
    positive = y == 1
    mass = ((rankdata(p) - 0.5) * ECE_BINS / len(p)).astype(int)  # equal values share a bin
    gaps = np.bincount(mass, weights=p - positive)
    bins = np.minimum((p * FIGURE_BINS).astype(int), FIGURE_BINS - 1)
    return {
        "error": np.mean(predicted != y),
        "log_loss": -np.mean(np.log(np.maximum(np.where(positive, p, 1 - p), SMALLEST))),
        "aurc": aurc(y, predicted, np.where(predicted > 0, p, 1 - p)),
        "brier": np.mean((p - positive) ** 2),
        "ece": np.abs(gaps).sum() / len(p),
        "bins": [np.bincount(bins, w, FIGURE_BINS).tolist() for w in (None, p, 1.0 * positive)],
    }


def measured(clf, X, y, X_test, y_test, calibrates):
    begun = time.perf_counter()
    clf.fit(X, y)
    fitted = time.perf_counter()
    probable = clf
    if calibrates:
        probable = CalibratedClassifierCV(SVC(**clf.best_params_), cv=5, ensemble=False).fit(X, y)
    seconds = {"seconds": fitted - begun, "sigmoid_seconds": time.perf_counter() - fitted}
    # Equal rows have equal probabilities, to the last bit: AURC depends on ties.
    distinct, copies = np.unique(X_test, axis=0, return_inverse=True)
    p = probable.predict_proba(distinct)[copies.ravel(), 1]
    return seconds | scores(y_test, clf.predict(distinct)[copies.ravel()], p)


def run(part, name, split, arm):
    """Fit and score one arm on one split; a failure is told, not raised."""
    data = raetsch(name, split)
    clf = ARMS[part][arm](data[0])
    row, failures = {"part": part, "set": name, "split": split, "arm": arm}, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            row |= measured(clf, *data, calibrates=arm == "svc")
        except Exception as error:
            row |= dict.fromkeys([*MEASURES, "sigmoid_seconds"], np.nan)
            row["bins"] = np.zeros((3, FIGURE_BINS)).tolist()
            failures = [f"failed, {error!r}"]
    names = ("best_params_", "gamma_", "softness_", "inference_")
    found = {name: getattr(clf, name) for name in names if hasattr(clf, name)}
    row |= {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}
    return row | {"warnings": failures + [w.category.__name__ for w in caught]}


def all_rows(part, arms, options):
    jobs = []
    for name in sorted(options.sets, key=lambda name: -len(raetsch(name, 1)[0])):  # long ones first
        most = 20 if raetsch_splits(name) == 100 else 10
        splits = range(1, min(options.splits or most, most) + 1)
        jobs += [(part, name, split, arm) for split in splits for arm in arms]
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


def compare(results, arms, _):
    paired = {"ours", "svc"} <= set(arms)
    for measure, (title, factor, digits) in MEASURES.items():
        head = "".join(f"{arm:>11}" for arm in arms) + paired * f"{'ours - svc':>17}"
        print(f"{title}\n{'set':15}{head}")
        for name in [*results, "mean"]:
            part = results if name == "mean" else {name: results[name]}
            means = [factor * summary(columns(part, arm, measure))[0] for arm in arms]
            line = f"{name:15}" + "".join(f"{mean:11.{digits}f}" for mean in means)
            if paired:
                mean, error, _ = factor * summary(columns(part, "ours", measure, "svc"))
                line += f"{mean:+12.{digits}f} ± {error:.{digits}f}"
            print(line)
        print()
    if paired:
        verdicts(results)


def verdicts(results):
    n = len(results)
    mean, *errors = 100 * summary(columns(results, "ours", "error", "svc"))
    print(f"Error: ours - svc, mean of {n} sets, {mean:+.2f} (aim: at most one standard error)")
    for kind, error in zip(("splits", "sets"), errors, strict=True):
        says = "unknown" if np.isnan(mean - error) else "met" if mean <= error else "missed"
        print(f"  standard error over {kind} {error:.2f}: {says}")
    each = [summary([values]) for values in columns(results, "ours", "log_loss", "svc")]
    worse = [name for name, (mean, se, _) in zip(results, each, strict=True) if mean > 2 * se]
    print(f"Log-loss: better on {sum(mean < 0 for mean, *_ in each)} of {n}", end=", ")
    print(f"worse by more than two standard errors on {len(worse)} {' '.join(worse)}")
    areas = columns(results, "ours", "aurc", "svc")
    print(f"AURC: better on {sum(np.mean(each) < 0 for each in areas)} of {n}")
    arms = (("ours", "seconds"), ("svc", "seconds"), ("svc", "sigmoid_seconds"))
    ours, svc, sigmoid = (sum(map(np.sum, columns(results, *arm))) for arm in arms)
    print(f"Fits: ours {ours:.1f} s, grid search {svc:.1f} s (its sigmoid {sigmoid:.1f} s)")
    print(f"  ours / grid search {ours / svc:.2f} (aim: a third)")


def calibration(results, arms, options):
    measures = ("error", "log_loss", "brier", "ece")
    print(f"Mean of {len(results)} sets; in brackets less {arms[0]} ± standard error over splits")
    print(f"{'arm':22}" + "".join(f"{measure:>10}{'':18}" for measure in measures))
    for arm in arms:
        line = f"{arm:22}"
        for measure in measures:
            _, factor, digits = MEASURES[measure]
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


PARTS = {"compare": compare, "calibration": calibration}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--splits", type=int, help="the first N only")
    parser.add_argument("--sets", nargs="+", choices=RAETSCH, default=list(RAETSCH))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--arms", nargs="+", choices=[*COMPARED, *VARIANTS])
    parser.add_argument("--json", help="file for what every fit gave")
    parser.add_argument("--figure", default="reliability.png")
    parser.add_argument("--read", nargs="+", default=[], help="such files, printed together")
    options = parser.parse_args()
    rows = [row for file in options.read for row in json.loads(Path(file).read_text())]
    for part in options.part:
        begun = time.perf_counter()
        arms = [arm for arm in ARMS[part] if not options.arms or arm in options.arms]
        for row in () if options.read else all_rows(part, arms, options):
            rows.append(row)
            if options.json:
                Path(f"{options.json}.new").write_text(json.dumps(rows))
                os.replace(f"{options.json}.new", options.json)
        own = [row for row in rows if row["part"] == part and row["set"] in options.sets]
        arms = [arm for arm in arms if any(row["arm"] == arm for row in own)]
        if results := by_set_and_arm(own, arms):
            PARTS[part](results, arms, options)
            troubles(row for row in own if row["arm"] in arms)
            print(f"[{part}: {time.perf_counter() - begun:.0f} s]\n", flush=True)


if __name__ == "__main__":
    main()
