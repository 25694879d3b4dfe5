"""Are probabilities of rare classes right, and do rejections keep their promises?

    python benchmarks/probabilities.py [--part rare promises]

- rare: a class of 1 % and 0.5 % of the rows, two recipes, beside SVC with C and gamma tuned on
  3,000 rows and calibrated by ``CalibratedClassifierCV(cv=3)``.
- promises: coverage and max_risk, 200 times, where the truth is known.
"""

import argparse
import time
import warnings

import numpy as np
from joblib import Parallel, delayed
from scipy import special
from scipy.stats import binom, binomtest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, RejectingClassifier

TUNED_ON = 3_000
SVC_GRID = {"C": (1, 10, 100, 1_000)}
GAMMA_FACTORS = (1 / 4, 1, 4, 16)  # times 1 / (n_features * variance)
COVERAGE = 0.9
MAX_RISKS = (0.05, 0.1)
SMALLEST = 1e-15  # probability that log-loss counts with


def tuned(X, y, **settings):
    """SVC, C and gamma tuned by three folds of at most 3,000 rows."""
    scale = 1 / (X.shape[1] * X.var())
    grid = SVC_GRID | {"gamma": [scale * factor for factor in GAMMA_FACTORS]}
    rows = slice(TUNED_ON)  # they are in random order
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")
        search = GridSearchCV(SVC(**settings), grid, cv=3, n_jobs=-1).fit(X[rows], y[rows])
    return SVC(**settings, **search.best_params_, cache_size=2_000)


def calibrated(svc, X, y):
    return CalibratedClassifierCV(svc, cv=3, n_jobs=-1).fit(X, y)


def ours(**settings):
    return BayesPointClassifier(random_state=0, n_jobs=-1, **settings)


def overlapping(share, rows, seed):
    """Two clusters of rare rows at the edge of the others, in ten features."""
    return make_classification(
        rows, 10, n_informative=6, weights=[1 - share], class_sep=1.5, flip_y=0, random_state=seed
    )


def islands(share, rows, seed):
    """Rare rows in a small island amid the others, in five features."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < share).astype(int)
    X = rng.standard_normal((rows, 5))
    X[y == 1] = 1.0 + 0.25 * X[y == 1]
    return X, y


def rare(_):
    print("log-loss and average precision; with class_weight='balanced' recall and false alarms, %")
    arms = ("base rate", "ours", "SVC", "ours", "SVC", "ours balanced", "SVC balanced")
    print(f"{'':24}" + "".join(f"{arm:>15}" for arm in arms))
    for recipe in (overlapping, islands):
        for share, rows in ((0.01, 9_000), (0.005, 9_000), (0.01, 15_000), (0.005, 15_000)):
            X, y = recipe(share, rows + 20_000, 0)
            X, X_test, y, y_test = train_test_split(
                X, y, train_size=rows, random_state=0, stratify=y
            )
            rate = y.mean()
            base = -np.mean(np.log(np.where(y_test == 1, rate, 1 - rate)))
            svc = tuned(X, y)
            plain = [ours().fit(X, y), calibrated(svc, X, y)]
            p = [clf.predict_proba(X_test)[:, 1] for clf in plain]
            loss = [
                -np.mean(np.log(np.maximum(np.where(y_test == 1, q, 1 - q), SMALLEST))) for q in p
            ]
            precision = [average_precision_score(y_test, q) for q in p]
            weighted = tuned(X, y, class_weight="balanced").fit(X, y)
            balanced = [ours(class_weight="balanced").fit(X, y), weighted]
            called = [clf.predict(X_test) == 1 for clf in balanced]
            line = f"{base:15.4f}" + "".join(f"{value:15.4f}" for value in loss)
            line += "".join(f"{value:15.3f}" for value in precision)
            for told in called:
                found, alarms = 100 * told[y_test == 1].mean(), 100 * told[y_test == 0].mean()
                line += f"{f'{found:.1f} {alarms:.2f}':>15}"
            print(f"{recipe.__name__:12}{100 * share:4.1f} %{rows:6}{line}", flush=True)


def known_truth(rng, rows):
    """Rows, labels and the probability of the label 1: a curved border, noisier on one side."""
    X = rng.standard_normal((rows, 4))
    p = special.expit(4 * (X[:, 0] + np.sin(2 * X[:, 1])) * np.where(X[:, 2] > 0, 1.5, 0.5))
    return X, (rng.random(rows) < p).astype(int), p


def promises(options):
    print("coverage=0.9: mean and standard deviation of achieved coverage;")
    print("max_risk: runs whose true risk exceeds it (delta 0.05), decided share over the largest")
    for inference in options.inference:
        runs = Parallel(n_jobs=-1)(
            delayed(one_promise)(inference, seed) for seed in range(options.repetitions)
        )
        coverage, reach, *kept = zip(*runs, strict=True)
        line = f"{inference:12}{np.mean(coverage):.4f} ± {np.std(coverage, ddof=1):.4f}"
        for max_risk, found in zip(MAX_RISKS, kept, strict=True):
            risk, share = np.transpose(found)
            count = int(np.sum(risk > max_risk))
            least = binomtest(count, len(risk)).proportion_ci(0.95).low
            line += f"   {max_risk}: {count} of {len(risk)} (rate at least {least:.3f})"
            line += f", share {np.nanmean(share):.2f}"
        print(line)
        shares = zip(MAX_RISKS, np.nanmean(reach, axis=0), strict=True)
        found = ", ".join(f"{max_risk}: {share:.2f}" for max_risk, share in shares)
        print(
            f"  the loosest threshold that passes, which promises nothing: share {found}",
            flush=True,
        )


def one_promise(inference, seed):
    """Achieved coverage, what is within reach, and `kept_promise` of each ``max_risk``."""
    rng = np.random.default_rng(seed)
    X, y, _ = known_truth(rng, 1_000)
    X_test, _, p_test = known_truth(rng, 10_000)
    fitted = ours(inference=inference).set_params(n_jobs=1).fit(X, y)
    chosen, held_out, proba = fitted.settled(), fitted.held_out_proba_, fitted.predict_proba(X_test)
    reach = [within_reach(held_out, y, proba, p_test, one) for one in MAX_RISKS]
    rejecting = RejectingClassifier(chosen, coverage=COVERAGE, reject_label=-1).fit(X, y)
    coverage = np.mean(rejecting.predict(X_test) >= 0)
    return coverage, reach, *(kept_promise(chosen, one, X, y, X_test, p_test) for one in MAX_RISKS)


def kept_promise(chosen, max_risk, X, y, X_test, p_test):
    """True risk of what is decided, and how much of what could be decided is."""
    clf = RejectingClassifier(chosen, max_risk=max_risk, reject_label=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no threshold passes
        clf.fit(X, y)
    decided = clf.predict(X_test) >= 0
    risk, ideal = true_risk(clf.predict_proba(X_test), p_test, max_risk)
    return (risk[decided].mean() if decided.any() else 0.0), decided.mean() / ideal


def true_risk(proba, p_test, max_risk):
    """Of each row, if it is decided; and the largest share that may be."""
    risk = np.where(proba[:, 1] > 0.5, 1 - p_test, p_test)
    running = np.cumsum(risk[np.argsort(-proba.max(axis=1))]) / np.arange(1, len(risk) + 1)
    largest = np.flatnonzero(running <= max_risk)
    return risk, (largest[-1] + 1) / len(risk) if len(largest) else np.nan


def within_reach(held_out, y, proba, p_test, max_risk, delta=0.05):
    """Share of what could be decided, by the loosest threshold whose own bound is low enough."""
    order = np.argsort(-held_out.max(axis=1))
    decided = np.arange(1, len(y) + 1)
    errors = np.cumsum(held_out.argmax(axis=1)[order] != y[order])
    passing = np.flatnonzero(binom.cdf(errors, decided, max_risk) <= delta)
    if not len(passing):
        return 0.0
    threshold = held_out.max(axis=1)[order[passing[-1]]]
    return np.mean(proba.max(axis=1) >= threshold) / true_risk(proba, p_test, max_risk)[1]


PARTS = {"rare": rare, "promises": promises}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--inference", nargs="+", default=["ep", "perceptron"], help="of promises")
    options = parser.parse_args()
    for part in options.part:
        begun = time.perf_counter()
        PARTS[part](options)
        print(f"[{part}: {time.perf_counter() - begun:.0f} s]\n", flush=True)


if __name__ == "__main__":
    main()
