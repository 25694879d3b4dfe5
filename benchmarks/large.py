"""Defaults on tables of any size, beside trees, boosting, linear models and SVC.

    python benchmarks/large.py --part tables | digits | growth | covertype | gpu

- tables: nine tables with columns of any kind (words one-hot, numbers standardised), four fifths of
  the rows for training; log-loss, error and time of each method, and ranks.
- digits: MNIST and USPS, defaults beside perceptrons alone.
- growth: log-loss against the number of rows, 500 to 20,000, of covertype, a9a, diamonds and MNIST.
- covertype: class 2 against the rest, all rows.
- gpu: the same on a GPU, from arrays on the host.

``--json`` keeps what a part measured; ``--picture`` draws it (growth and covertype). Probabilities
of trees are clipped to [0.001, 0.999], or their log-loss would be infinite. Data sets come from the
folder named in BAYESPOINT_DATA.
"""

import argparse
import csv
import gzip
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier
from bayespoint.papers import datasets

TARGETS = {
    "shuttle": "Class", "spam": "type", "dna": "Class", "churn": "churn", "credit": "Status",
    "lending": "Class", "hpc": "class", "income": "INCOME", "diamonds": "cut",
}  # fmt: skip
GROWING = ("covertype", "a9a", "diamonds", "mnist")
SIZES = (500, 1_000, 2_000, 2_500, 5_000, 10_000, 20_000)
N_TEST = 10_000
CLIPPED = 1e-3
MOST_SVC = 10_000
MOST_WORDS = 100  # kinds of a column of words


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
}


def measured(name, X, y, X_test, y_test):
    """Error in percent, log-loss, seconds of fit and prediction, and what was chosen."""
    if name == "SVC" and len(y) > MOST_SVC:
        return None
    clf = METHODS[name]()
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
        found["why"] = f"{clf.inference_}{'' if cells is None else tuple(cells)}: "
        found["why"] += clf.inference_reason_
    return found


def line(name, found):
    if found is None:
        return f"  {name:18} too many rows"
    told = f"  {name:18}{found['loss']:8.4f}{found['error']:7.2f} %"
    return f"{told}   fit {found['fit']:6.1f} s, prediction {found['predict']:5.1f} s"


def beside(title, data, methods, kept):
    """Measure methods on a data set, and print a line of each."""
    X, y, *_ = data
    print(f"{title}: {X.shape[0]} × {X.shape[1]}, {len(np.unique(y))} classes", flush=True)
    for name in methods:
        found = measured(name, *data)
        print(line(name, found), flush=True)
        if found is not None:
            if "why" in found:
                print(f"    {found['why']}", flush=True)
            kept.append({"data": title, "rows": len(y), "method": name, **found})


# ---------------------------------------------------------------------------------------- data


def read_table(name):
    """Columns standardised, words one-hot; rows in a random order."""
    path = Path(os.environ["BAYESPOINT_DATA"]) / "tables" / f"{name}.csv.gz"
    with gzip.open(path, "rt", newline="") as stream:
        head, *rows = csv.reader(stream)
    columns = dict(zip(head, np.array(rows).T, strict=True))
    y = columns.pop(TARGETS[name])
    X = np.column_stack([part for column in columns.values() for part in encoded(column)])
    known = ~np.isin(y, ("", "NA"))
    return X[known], y[known]


def encoded(column):
    gaps = np.isin(column, ("", "NA"))
    try:
        values = np.where(gaps, "nan", column).astype(float)
    except ValueError:
        kinds = np.unique(column)[:MOST_WORDS]
        return [(column == kind).astype(float) for kind in kinds]
    values = np.where(gaps, np.nanmean(values), values)
    spread = values.std()
    return [(values - values.mean()) / spread] if spread > 0 else []


def divided(X, y, test=0.2):
    X, X_test, y, y_test = train_test_split(X, y, test_size=test, random_state=0, stratify=y)
    return X, y, X_test, y_test


def covertype():
    X, y, X_test, y_test = divided(*datasets.load("covtype"))
    scaler = MinMaxScaler().fit(X)
    X, X_test = (np.float32(scaler.transform(Z)) for Z in (X, X_test))
    return X, (y == 1).astype(int), X_test, (y_test == 1).astype(int)


def digits(name):
    X, y, X_test, y_test = datasets.load(name)
    scale = 255 if name == "mnist" else 1
    return np.float32(X / scale), y, np.float32(X_test / scale), y_test


def adult():
    X, y, X_test, y_test = datasets.load("a9a")
    X, X_test = (np.float32(Z.toarray() if hasattr(Z, "toarray") else Z) for Z in (X, X_test))
    return X, y, X_test, y_test


def growing(name):
    """Data set with its training rows in a random order, and few test rows."""
    makers = {"covertype": covertype, "a9a": adult, "mnist": lambda: digits("mnist")}
    X, y, X_test, y_test = makers[name]() if name in makers else divided(*read_table(name))
    order = np.random.default_rng(0).permutation(len(y))[: max(SIZES)]
    return X[order], y[order], X_test[:N_TEST], y_test[:N_TEST]


# --------------------------------------------------------------------------------------- parts


def tables(options, kept):
    for name in options.sets or TARGETS:
        beside(name, divided(*read_table(name)), options.methods, kept)
    ranked(kept, options.methods)


def ranked(kept, methods):
    """Print log-losses as a table, with ranks: of methods that measured all sets."""
    names = list(dict.fromkeys(row["data"] for row in kept))
    loss = {(row["data"], row["method"]): row["loss"] for row in kept}
    methods = [m for m in methods if all((name, m) in loss for name in names)]
    print(f"\n{'log-loss':12}" + "".join(f"{m:>18}" for m in methods))
    ranks = np.zeros(len(methods))
    for name in names:
        values = np.array([loss[name, m] for m in methods])
        rank = values.argsort().argsort() + 1
        ranks += rank / len(names)
        cells = (f"{value:.4f} ({r})" for value, r in zip(values, rank, strict=True))
        print(f"{name:12}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"{'mean rank':12}" + "".join(f"{rank:18.2f}" for rank in ranks))
    slow = {row["data"]: row["fit"] for row in kept if row["method"] == "ours"}
    for row in kept:
        if row["method"] == "boosting" and slow[row["data"]] > max(10 * row["fit"], 180):
            print(f"{row['data']}: {slow[row['data']] / row['fit']:.0f} times boosting")


def digit_sets(options, kept):
    METHODS["perceptrons"] = lambda: ours(inference="perceptron")
    for name in options.sets or ("usps", "mnist"):
        beside(name, digits(name), ("ours", "perceptrons"), kept)


def growth(options, kept):
    methods = [m for m in options.methods if m in ("ours", "boosting", "trees, calibrated")]
    for name in options.sets or GROWING:
        X, y, X_test, y_test = growing(name)
        for size in options.sizes:
            if size <= len(y):
                beside(name, (X[:size], y[:size], X_test, y_test), methods, kept)


def all_of_covertype(options, kept):
    beside("covertype", covertype(), options.methods, kept)


def gpu(_, kept):
    import torch

    torch.zeros(1, device="cuda")
    METHODS["ours, GPU"] = lambda: ours(device="cuda")
    METHODS["EP, GPU"] = lambda: ours(device="cuda", inference="ep")
    X, y, X_test, y_test = covertype()
    METHODS["EP, GPU"]().fit(X[:20_000], y[:20_000]).predict_proba(X_test[:1_000])  # to load all
    beside("covertype", (X, y, X_test, y_test), ("EP, GPU", "ours, GPU"), kept)


# ------------------------------------------------------------------------------------ pictures


STYLES = {
    "ours": ("#0072b2", "o", "-"), "boosting": ("#d55e00", "s", "--"),
    "trees, calibrated": ("#009e73", "^", ":"), "trees": ("#009e73", "^", ":"),
    "logistic": ("#cc79a7", "D", "-."), "Nystroem": ("#e69f00", "v", "-."),
}  # fmt: skip
NAMES = {"ours": "bayespoint", "Nystroem": "Nystroem, logistic"}


def draw_growth(kept, names):
    """Log-loss against the number of rows, one panel a data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(names), 4), layout="constrained")
    for ax, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for method, (colour, marker, style) in STYLES.items():
            rows = [r for r in kept if r["data"] == name and r["method"] == method]
            rows.sort(key=lambda row: row["rows"])
            if rows:
                ax.plot(
                    [r["rows"] for r in rows], [r["loss"] for r in rows], color=colour,
                    marker=marker, ls=style, ms=7, lw=2, label=NAMES.get(method, method),
                )  # fmt: skip
        ax.set(xscale="log", yscale="log")
        ax.set_title(name, fontsize=15)
        ax.set_xlabel("training rows", fontsize=14)
        ax.set_xticks([500, 2_000, 10_000], ["500", "2,000", "10,000"])
        plain_ticks(ax)
    figure.axes[0].set_ylabel("log-loss of new rows", fontsize=14)
    figure.axes[0].legend(fontsize=13)
    return figure


def draw_times(kept):
    """Error and log-loss against the time of the fit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.4), layout="constrained")
    for ax, (value, label) in zip(
        figure.subplots(1, 2), (("error", "error, %"), ("loss", "log-loss")), strict=True
    ):
        for row in kept:
            colour, marker, _ = STYLES[row["method"]]
            name = NAMES.get(row["method"], row["method"])
            ax.plot(row["fit"], row[value], marker, color=colour, ms=12, label=name)
        ax.set(xscale="log", yscale="log")
        ax.set_xlabel("time of the fit on two cores, s", fontsize=14)
        ax.set_ylabel(label, fontsize=14)
        ax.margins(y=0.12)
        ax.set_xticks([1, 10, 100, 1_000], ["1", "10", "100", "1,000"])
        ax.set_xlim(1, 1_000)
        plain_ticks(ax)
    figure.axes[1].legend(fontsize=13)
    return figure


def plain_ticks(ax):
    """Plain numbers on the axis of values."""
    low, high = ax.get_ylim()
    steps = [
        digit * 10.0**power
        for power in range(-3, 3)
        for digit in (1, 1.5, 2, 3, 3.5, 4, 4.5, 5, 6, 8)
    ]
    nice = [value for value in steps if low < value < high]
    ax.set_yticks(nice, [f"{value:g}" for value in nice])
    ax.minorticks_off()
    ax.tick_params(labelsize=13)


def picture(kept, path):
    """Draw what was measured: several sizes of sets, or one of one."""
    names = list(dict.fromkeys(row["data"] for row in kept))
    several = len({row["rows"] for row in kept}) > 1
    figure = draw_growth(kept, names) if several else draw_times(kept)
    figure.savefig(path, dpi=110)


PARTS = {
    "tables": tables, "digits": digit_sets, "growth": growth, "covertype": all_of_covertype,
    "gpu": gpu,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--sets", nargs="+", help="data sets; all by default")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="of growth")
    parser.add_argument("--json", type=Path, nargs="+", help="to write, or to read for --picture")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.picture is not None:
        rows = [row for path in options.json for row in json.loads(path.read_text())]
        return picture(rows, options.picture)
    kept, begun = [], time.perf_counter()
    try:
        PARTS[options.part](options, kept)
    finally:
        if options.json:
            options.json[0].write_text(json.dumps(kept, indent=1))
    print(f"[{options.part}: {time.perf_counter() - begun:.0f} s]")
    return None


if __name__ == "__main__":
    main()
