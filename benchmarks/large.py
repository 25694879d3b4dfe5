"""Defaults on tables of any size, beside trees, boosting, linear models and SVC.

    python benchmarks/large.py --part tables | ranks | digits | growth | covertype | gpu

- tables: nine tables with columns of any kind, as `TableEncoder` makes them of training rows, four
  fifths of all, the same for every method; and a9a, as it is divided. Log-loss, error and time of
  each method, and ranks. LightGBM takes part where it is installed.
- ranks: the tables and ranks again, of what several runs of tables left in their ``--json``.
- digits: MNIST and USPS, defaults beside perceptrons alone and boosting.
- growth: log-loss against the number of rows, 500 to 20,000, of covertype, a9a, diamonds and MNIST.
- covertype: class 2 against the rest, all rows.
- gpu: the same on a GPU, from arrays on the host.

``--json`` keeps what a part measured; ``--picture`` draws it (growth and covertype). Probabilities
of trees are clipped to [0.001, 0.999], or their log-loss would be infinite. Data sets come from the
folder named in BAYESPOINT_DATA.
"""

import argparse
import json
import os
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC
from widths import TunedSVC, boosted

from bayespoint import BayesPointClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.tables import read_table
from bayespoint.papers import datasets

TARGETS = {
    "shuttle": "Class", "spam": "type", "dna": "Class", "churn": "churn", "credit": "Status",
    "lending": "Class", "hpc": "class", "income": "INCOME", "diamonds": "cut",
}  # fmt: skip
TABLES = (*TARGETS, "a9a")
GROWING = ("covertype", "a9a", "diamonds", "mnist")
SIZES = (500, 1_000, 2_000, 2_500, 5_000, 10_000, 20_000)
N_TEST = 10_000
CLIPPED = 1e-3
MOST_SVC = 10_000
MOST_WORDS = 100  # kinds of a column of words
TOO_MANY = "too many rows"


# ------------------------------------------------------------------------------------- methods


def ours(**settings):
    return BayesPointClassifier(random_state=0, n_jobs=-1, **settings)


def trees(**settings):
    return ExtraTreesClassifier(300, random_state=0, n_jobs=-1, **settings)


def linear():
    return LogisticRegression(max_iter=1_000)


METHODS = {
    "ours": ours,
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "trees": trees,
    "trees, all": lambda: trees(max_features=None),
    "trees, calibrated": lambda: CalibratedClassifierCV(trees(), cv=3),
    "logistic": linear,
    "Nystroem": lambda: make_pipeline(Nystroem(n_components=300, random_state=0), linear()),
    "SVC": lambda: CalibratedClassifierCV(SVC(), cv=3, ensemble=False),
    "LightGBM, tuned": boosted,
    "SVC, tuned": TunedSVC,
}
TUNED = ("LightGBM, tuned", "SVC, tuned")  # beside tables; elsewhere if asked for


class Data(NamedTuple):
    """Training and test rows; ``groups`` has the column that each feature comes from, or None."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    groups: list | None = None


def made(name, groups):
    """Classifier of this name; None where its package is missing."""
    clf = METHODS[name]()
    if groups is not None and isinstance(clf, BayesPointClassifier):
        clf.set_params(feature_groups=groups)
    return clf


def measured(name, data):
    """Error in percent, log-loss, seconds of fit and prediction, and what was chosen.

    Or, as text, why the method takes no part.
    """
    X, y, X_test, y_test, groups = data
    if name.startswith("SVC") and len(y) > MOST_SVC:
        return TOO_MANY
    clf = made(name, groups)
    if clf is None:
        return "not installed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of solvers that would go on
        begun = time.perf_counter()
        clf.fit(X, y)
        fitted = time.perf_counter()
        p = clf.predict_proba(X_test)
        seconds = fitted - begun, time.perf_counter() - fitted
    if name in ("trees", "trees, all"):
        p = np.clip(p, CLIPPED, 1 - CLIPPED)
        p /= p.sum(axis=1, keepdims=True)
    error = 100 * np.mean(clf.classes_[p.argmax(axis=1)] != y_test)
    found = {"error": error, "loss": log_loss(y_test, p, labels=clf.classes_), "fit": seconds[0]}
    found["predict"] = seconds[1]
    if name == "ours":
        cells = clf.settings_.cells
        found["why"] = f"{clf.kernel_}, {clf.inference_}{'' if cells is None else tuple(cells)}: "
        found["why"] += clf.inference_reason_
    return found


def line(name, found):
    if isinstance(found, str):
        return f"  {name:18} {found}"
    told = f"  {name:18}{found['loss']:8.4f}{found['error']:7.2f} %"
    return f"{told}   fit {found['fit']:6.1f} s, prediction {found['predict']:5.1f} s"


def beside(title, data, methods, kept):
    """Measure methods on a data set, and print a line of each."""
    (n, width), n_classes = data.X.shape, len(np.unique(data.y))
    print(f"{title}: {n} × {width}, {n_classes} classes", flush=True)
    for name in methods:
        found = measured(name, data)
        print(line(name, found), flush=True)
        if isinstance(found, dict):
            if "why" in found:
                print(f"    {found['why']}", flush=True)
            kept.append({"data": title, "rows": n, "method": name, **found})


# ---------------------------------------------------------------------------------------- data


def table(name):
    """A table divided; the encoder sees training rows only. Rows without a label are left out."""
    path = Path(os.environ["BAYESPOINT_DATA"]) / "tables" / f"{name}.csv.gz"
    target = TARGETS[name]
    read = read_table(path, text=[target])
    labelled = np.flatnonzero([label is not None for label in read.column(target)])
    rows, y, rows_test, y_test, _ = divided(labelled, read.column(target)[labelled].astype(str))
    read = read.without([target])
    encoder = TableEncoder(MOST_WORDS).fit(read.rows(rows))
    X, X_test = (encoder.transform(read.rows(part)) for part in (rows, rows_test))
    groups = encoder.feature_groups_
    several = len(set(groups)) < len(groups)
    return Data(X, y, X_test, y_test, groups if several else None)


def divided(X, y, test=0.2):
    X, X_test, y, y_test = train_test_split(X, y, test_size=test, random_state=0, stratify=y)
    return Data(X, y, X_test, y_test)


def covertype():
    X, y, X_test, y_test, _ = divided(*datasets.load("covtype"))
    scaler = MinMaxScaler().fit(X)
    X, X_test = (np.float32(scaler.transform(Z)) for Z in (X, X_test))
    return Data(X, (y == 1).astype(int), X_test, (y_test == 1).astype(int))


def digits(name):
    X, y, X_test, y_test = datasets.load(name)
    scale = 255 if name == "mnist" else 1
    return Data(np.float32(X / scale), y, np.float32(X_test / scale), y_test)


def adult():
    X, y, X_test, y_test = datasets.load("a9a")
    X, X_test = (np.float32(Z.toarray() if hasattr(Z, "toarray") else Z) for Z in (X, X_test))
    return Data(X, y, X_test, y_test)


def growing(name):
    """Data set with its training rows in a random order, and few test rows."""
    makers = {"covertype": covertype, "a9a": adult, "mnist": lambda: digits("mnist")}
    X, y, X_test, y_test, groups = makers[name]() if name in makers else table(name)
    order = np.random.default_rng(0).permutation(len(y))[: max(SIZES)]
    return Data(X[order], y[order], X_test[:N_TEST], y_test[:N_TEST], groups)


# --------------------------------------------------------------------------------------- parts


def tables(options, kept):
    methods = options.methods or list(METHODS)
    for name in options.sets or TABLES:
        beside(name, adult() if name == "a9a" else table(name), methods, kept)
    ranks(options, kept)


def ranks(options, kept):
    kept = kept or rows_of(options.json)
    methods = list(dict.fromkeys(row["method"] for row in kept))
    for measure, label, digits in (("loss", "log-loss", 4), ("error", "error, %", 2)):
        ranked(kept, methods, measure, f"{label:12}", digits)
    slow = {row["data"]: row["fit"] for row in kept if row["method"] == "ours"}
    for row in kept:
        if row["method"] == "boosting" and slow.get(row["data"], 0) > max(10 * row["fit"], 180):
            print(f"{row['data']}: {slow[row['data']] / row['fit']:.0f} times boosting")


def rows_of(paths):
    """What runs have kept."""
    return [row for path in paths for row in json.loads(path.read_text())]


def ranked(kept, methods, measure, label, digits):
    """Print a measure as a table, with ranks: of methods that measured all sets, then of others."""
    names = list(dict.fromkeys(row["data"] for row in kept))
    found = {(row["data"], row["method"]): row[measure] for row in kept}
    whole = [m for m in methods if all((name, m) in found for name in names)]
    print(f"\n{label}" + "".join(f"{m:>20}" for m in whole))
    ranks = []
    for name in names:
        values = [found[name, m] for m in whole]
        ranks.append(rankdata(values))
        pairs = zip(values, ranks[-1], strict=True)
        cells = (f"{value:.{digits}f} ({rank:g})" for value, rank in pairs)
        print(f"{name:12}" + "".join(f"{cell:>20}" for cell in cells))
    print(f"{'mean rank':12}" + "".join(f"{rank:20.2f}" for rank in np.mean(ranks, axis=0)))
    for method in methods:
        some = [name for name in names if (name, method) in found]
        if some and method not in whole:
            rank = np.mean([rank_beside(found, name, method, whole) for name in some])
            print(
                f"{method}: mean rank {rank:.2f} beside these, of the {len(some)} of {len(names)} "
                f"sets that it has ({', '.join(some)}); the others have {TOO_MANY}"
            )


def rank_beside(found, name, method, others):
    """Rank of a method on a set beside others."""
    return rankdata([found[name, m] for m in (method, *others)])[0]


def digit_sets(options, kept):
    METHODS["perceptrons"] = lambda: ours(inference="perceptron")
    for name in options.sets or ("usps", "mnist"):
        beside(name, digits(name), options.methods or ("ours", "perceptrons", "boosting"), kept)


def growth(options, kept):
    usual = ("ours", "boosting", "trees, calibrated")
    methods = [m for m in options.methods or METHODS if m in usual]
    for name in options.sets or GROWING:
        data = growing(name)
        for size in options.sizes:
            if size <= len(data.y):
                beside(name, data._replace(X=data.X[:size], y=data.y[:size]), methods, kept)


def all_of_covertype(options, kept):
    methods = options.methods or [m for m in METHODS if m not in TUNED]
    beside("covertype", covertype(), methods, kept)


def gpu(_, kept):
    import torch

    torch.zeros(1, device="cuda")
    METHODS["ours, GPU"] = lambda: ours(device="cuda")
    METHODS["EP, GPU"] = lambda: ours(device="cuda", inference="ep")
    data = covertype()
    names = ("EP, GPU", "ours, GPU")
    for name in names:  # to load and compile all
        clf = METHODS[name]().fit(data.X[:20_000], data.y[:20_000])
        clf.predict_proba(data.X_test[:1_000])
    beside("covertype", data, names, kept)


PARTS = {
    "tables": tables, "ranks": ranks, "digits": digit_sets, "growth": growth,
    "covertype": all_of_covertype, "gpu": gpu,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--sets", nargs="+", help="data sets; all by default")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="of growth")
    parser.add_argument("--device", default="cpu", help="of bayespoint; of gpu it is the GPU")
    parser.add_argument("--json", type=Path, nargs="+", help="to write, or to read for --picture")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.picture is not None:
        from large_pictures import picture

        return picture(rows_of(options.json), options.picture)
    METHODS["ours"] = partial(ours, device=options.device)
    kept, begun = [], time.perf_counter()
    try:
        PARTS[options.part](options, kept)
    finally:
        if options.json and kept:
            options.json[0].write_text(json.dumps(kept, indent=1))
    print(f"[{options.part}: {time.perf_counter() - begun:.0f} s]")
    return None


if __name__ == "__main__":
    main()
