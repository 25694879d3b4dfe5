"""Expectation propagation by cells: is it exact where it should be, and what is it worth?

    python benchmarks/cells.py --part exact | refits | covertype | seven | adult | growth

- exact: 2,000 rows by cells and landmarks beside one cell with all rows.
- refits: leave-one-out beside fits without each of 50 rows.
- covertype: class 2 against the rest, all rows, 80/20, features in [0, 1], nothing given but
  ``inference="ep"``; beside ExtraTrees and gradient boosting; times of prediction.
- seven: the same with all classes.
- adult: a9a, beside logistic regression.
- growth: time and peak memory of fits in processes of their own, at fixed settings.

Data sets come from the folder named in BAYESPOINT_DATA.
"""

import argparse
import pickle
import resource
import subprocess
import sys
import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bayespoint import BayesPointClassifier
from bayespoint.papers import datasets

ROWS = (10_000, 100_000, 1_000_000)


def ours(**settings):
    return BayesPointClassifier(inference="ep", random_state=0, n_jobs=-1, **settings)


def timed(make, *arguments):
    begun = time.perf_counter()
    return make(*arguments), time.perf_counter() - begun


# ------------------------------------------------------------------------------------ exactness


def noisy(rows, seed=0):
    """Rows in [0, 1] of two classes that overlap."""
    X, y = make_classification(
        rows, 6, n_informative=5, n_redundant=0, n_clusters_per_class=3, flip_y=0.05,
        random_state=seed,
    )  # fmt: skip
    return MinMaxScaler().fit_transform(X), y


def latent(clf, X):
    """Mean outputs over lengths, and probabilities as votes alone."""
    return clf.cosines(X), clf.predict_proba(X)[:, 1]


def exact(_):
    X, y = noisy(4_000)
    X, X_test, y, y_test = X[:2_000], X[2_000:], y[:2_000], y[2_000:]
    fixed = {"gamma": 8.0, "softness": 0.1, "bias": 1.0, "decision": "vote"}
    dense = ours(cell_size=2_000, **fixed).fit(X, y)
    f, p = latent(dense, X_test)
    print(f"one cell with all 2,000 rows: log-loss {log_loss(y_test, p):.4f}")
    print("difference from it: angle of the outputs at 2,000 test rows, degrees; probabilities,")
    print("mean and largest; log-loss")
    print(
        f"{'cell_size':>10}{'n_landmarks':>12}{'angle':>9}{'mean':>9}{'largest':>9}{'log-loss':>10}"
    )
    for n_landmarks in (0, 20, 100, 500, 2_000):
        for cell_size in (100, 250, 500, 1_000):
            clf = ours(cell_size=cell_size, n_landmarks=n_landmarks, n_trees=1, **fixed).fit(X, y)
            g, q = latent(clf, X_test)
            angle = np.degrees(np.arccos(min(1, f @ g / np.linalg.norm(f) / np.linalg.norm(g))))
            off = np.abs(p - q)
            print(
                f"{cell_size:10}{n_landmarks:12}{angle:9.3f}{off.mean():9.5f}{off.max():9.5f}"
                f"{log_loss(y_test, q):10.4f}",
                flush=True,
            )


def refits(_):
    X, y = noisy(1_000)
    fixed = {"gamma": 8.0, "softness": 0.1, "bias": 1.0, "decision": "vote"}
    rows = np.random.default_rng(0).choice(len(y), 50, replace=False)
    print("probability of a row's label: left out in closed form, and by a fit without the row")
    print("(which is cut into other cells; eight trees average that out)")
    for cells in (
        {"cell_size": 1_000},
        {"cell_size": 300, "n_landmarks": 0, "n_trees": 8},
        {"cell_size": 300, "n_landmarks": 300, "n_trees": 8},
    ):
        told = ours(**cells, **fixed).fit(X, y).held_out_proba_[rows, y[rows]]
        again = []
        for row in rows:
            rest = np.arange(len(y)) != row
            clf = ours(**cells, **fixed).fit(X[rest], y[rest])
            again.append(clf.predict_proba(X[[row]])[0, y[row]])
        off = np.abs(told - again)
        print(
            f"{cells}: mean difference {off.mean():.4f}, largest {off.max():.4f}; "
            f"mean log-probability {np.mean(np.log(told)):.4f} and {np.mean(np.log(again)):.4f}",
            flush=True,
        )


# ---------------------------------------------------------------------------------- comparisons


def report(name, clf, seconds, X_test, y_test):
    p, predicting = timed(clf.predict_proba, X_test)
    error = 100 * np.mean(clf.classes_[p.argmax(axis=1)] != y_test)
    loss = log_loss(y_test, p, labels=clf.classes_)
    print(
        f"{name:20}{error:7.2f} %{loss:9.4f}"
        f"   fit {seconds:6.1f} s, prediction {predicting:5.1f} s",
        flush=True,
    )
    return seconds


def covertype_rows(two_classes, rows):
    X, y = datasets.load("covtype")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    scaler = MinMaxScaler().fit(X)
    X, X_test = (np.float32(scaler.transform(Z)) for Z in (X, X_test))
    if two_classes:
        y, y_test = (np.where(z == 1, 1, 0) for z in (y, y_test))
    return X[:rows], y[:rows], X_test, y_test


def beside_trees(options, *, two_classes):
    X, y, X_test, y_test = covertype_rows(two_classes, options.rows)
    print(f"covertype, {len(y)} training rows, {len(y_test)} test rows; error, log-loss, seconds")
    clf = ours(verbose=options.verbose)
    mine = report("ours", *timed(clf.fit, X, y), X_test, y_test)
    print(f"  {clf.inference_reason_}\n  gamma {clf.gamma_:.3g}, softness {clf.softness_:.2g}")
    print(f"  {clf.settings_.cells}")
    fresh = one_row_first(clf, X_test)
    print(f"  one row, first call: {1e3 * fresh:.0f} ms")
    peer = ExtraTreesClassifier(200, random_state=0, n_jobs=-1)
    theirs = report("ExtraTrees(200)", *timed(peer.fit, X, y), X_test, y_test)
    del peer
    peer = HistGradientBoostingClassifier(max_iter=500, max_leaf_nodes=127, random_state=0)
    report("gradient boosting", *timed(peer.fit, X, y), X_test, y_test)
    print(f"fit: {mine / theirs:.2f} of ExtraTrees' time, choosing included")


def one_row_first(clf, X_test):
    """Seconds for one row, of a model that nobody has asked before."""
    return timed(pickle.loads(pickle.dumps(clf)).predict_proba, X_test[:1])[1]


def covertype(options):
    beside_trees(options, two_classes=True)


def seven(options):
    beside_trees(options, two_classes=False)


def adult(options):
    X, y, X_test, y_test = datasets.load("a9a")
    X, X_test = (Z.toarray() if hasattr(Z, "toarray") else Z for Z in (X, X_test))
    print("a9a; error, log-loss, seconds")
    clf = ours(verbose=options.verbose)
    report("ours", *timed(clf.fit, X, y), X_test, y_test)
    print(f"  gamma {clf.gamma_:.3g}, softness {clf.softness_:.2g}, {clf.settings_.cells}")
    peer = LogisticRegression(max_iter=1_000)
    report("logistic regression", *timed(peer.fit, X, y), X_test, y_test)
    peer = HistGradientBoostingClassifier(random_state=0)
    report("gradient boosting", *timed(peer.fit, X, y), X_test, y_test)


# --------------------------------------------------------------------------------------- growth


# Settings of fits that grow, and the largest number of rows.
GROWING = {
    "cells": ({"n_landmarks": 0, "cell_size": 1_000}, 1_000_000),
    "landmarks": ({"n_landmarks": 300, "cell_size": 1_000}, 100_000),
    "linear": ({"kernel": "linear"}, 1_000_000),
}


def growth(options):
    if options.size:
        return grow(options.size, GROWING[options.kind][0])
    print("seconds of the fit, MB at most beside Python, X and y; exponents of both")
    for kind, (_, most) in GROWING.items():
        before = None
        for size in [size for size in ROWS if size <= most]:
            command = [sys.executable, __file__, "--part", "growth", "--size", str(size)]
            command += ["--kind", kind]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found = np.array([float(value) for value in out.split()[:2]])
            powers = "" if before is None else np.round(np.log10(found / before), 2)
            print(f"{kind:10}{size:9}{found[0]:9.1f}{found[1]:9.0f}  {powers}", flush=True)
            before = found
    return None


def grow(size, settings):
    X, y = make_classification(
        size, 10, n_informative=8, n_clusters_per_class=4, flip_y=0.05, random_state=0
    )
    X = np.float32(StandardScaler().fit_transform(X))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clf = ours(gamma=0.1, softness=0.1, bias=1.0, n_trees=1, **settings)
    seconds = timed(clf.fit, X, y)[1]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(seconds, most / 1024)


PARTS = {
    "exact": exact, "refits": refits, "covertype": covertype, "seven": seven,
    "adult": adult, "growth": growth,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, help="of covertype; all by default")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for part in options.part:
        begun = time.perf_counter()
        PARTS[part](options)
        if not options.size:
            print(f"[{part}: {time.perf_counter() - begun:.0f} s]\n", flush=True)


if __name__ == "__main__":
    main()
