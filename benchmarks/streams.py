"""Data that keep coming: `partial_fit` beside one fit of all rows, and beside other learners.

    python benchmarks/streams.py --part covertype | memory | peers | shuffles | linear | drift

- covertype: class 2 against the rest, one pass of all rows in batches of 10,000, beside a fit of
  all rows with the same settings, which a fit of the first 50,000 rows has chosen.
- memory: the same with a cache_size that holds a third of the rows, beside fits of as many rows and
  of all; memory of the process by rows.
- peers: the same rows by SGDClassifier (with and without Nystroem features), river's adaptive
  random forest (its first ``--forest-rows`` rows) and HistGradientBoosting, fitted anew as rows
  double.
- shuffles: the same by five orders of the rows.
- linear: angle between a stream's linear machine and that of a fit, after each of some batches.
- drift: the rule turns halfway; errors of each batch before it is learnt, with and without a
  half-life.

``--json`` keeps what a part measured, ``--picture`` draws it (covertype, memory, drift). Data sets
come from the folder named in BAYESPOINT_DATA.
"""

import argparse
import json
import resource
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from widths import covertype

from bayespoint import BayesPointClassifier

BATCH = 10_000
CHOSEN_ON = 50_000
N_TEST = 50_000
THIRD = 344  # MB of cache_size, which hold a third of covertype's rows by `most_rows`


def data(n_rows=None, seed=0):
    """Rows in a random order, and test rows."""
    X, y, X_test, y_test = covertype()
    order = np.random.default_rng(seed).permutation(len(y))[:n_rows]
    return X[order], y[order], X_test[:N_TEST], y_test[:N_TEST]


def settled(X, y):
    """Return a classifier with the settings that some rows choose."""
    clf = BayesPointClassifier(random_state=0, n_jobs=-1, inference="ep")
    return clf.fit(X[:CHOSEN_ON], y[:CHOSEN_ON]).settled()


def quality(clf, X_test, y_test):
    p = clf.predict_proba(X_test)
    return {"error": 100 * np.mean(clf.classes_[p.argmax(axis=1)] != y_test),
            "loss": log_loss(y_test, np.clip(p, 1e-15, 1), labels=clf.classes_)}  # fmt: skip


def passed(clf, X, y, kept=None):
    """Learn all rows batch by batch; seconds, the last sweep included."""
    begun = time.perf_counter()
    for first in range(0, len(y), BATCH):
        clf.partial_fit(X[first : first + BATCH], y[first : first + BATCH])
        if kept is not None:
            history = clf.stream_.history[-1]
            kept.append({"rows": first + BATCH, "log_proba": float(history[1]),
                         "memory": memory(), "held": len(clf.stream_.label)})  # fmt: skip
    clf.absorb()
    return time.perf_counter() - begun


def memory():
    """Memory that the process has now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def fitted(clf, X, y):
    begun = time.perf_counter()
    clf.fit(X, y)
    return time.perf_counter() - begun


def tell(name, seconds, found):
    print(f"  {name:34}{found['error']:7.2f} %{found['loss']:9.4f}{seconds:9.1f} s", flush=True)


# --------------------------------------------------------------------------------------- parts


def of_covertype(options, kept):
    X, y, X_test, y_test = data(options.rows)
    clf = settled(X, y)
    print(f"{X.shape[0]} × {X.shape[1]}; error, log-loss, seconds", flush=True)
    batch = clone(clf)
    all_at_once = fitted(batch, X, y)
    tell("one fit of all rows", all_at_once, quality(batch, X_test, y_test))
    stream = clone(clf)
    seconds = passed(stream, X, y, kept)
    tell("one pass, batches of 10,000", seconds, quality(stream, X_test, y_test))
    print(f"  time: {seconds / all_at_once:.2f} of one fit")


def of_memory(options, kept):
    X, y, X_test, y_test = data(options.rows)
    clf = settled(X, y)
    share = 1 if options.rows is None else options.rows / 464_809
    small = clone(clf).set_params(cache_size=max(THIRD * share, 60))
    seconds = passed(small, X, y, kept)
    n_held = len(small.stream_.label)
    print(f"{X.shape[0]} × {X.shape[1]}, {n_held} held; error, log-loss, seconds", flush=True)
    tell("one pass, a third held", seconds, quality(small, X_test, y_test))
    for name, rows in ((f"fit of the last {n_held}", slice(-n_held, None)),
                       ("fit of all rows", slice(None))):  # fmt: skip
        other = clone(clf)
        seconds = fitted(other, X[rows], y[rows])
        tell(name, seconds, quality(other, X_test, y_test))
    flat = [row["memory"] for row in kept if row["rows"] > len(y) / 2]
    print(f"  memory in the second half of the pass: {min(flat):.0f} to {max(flat):.0f} MB")


def of_peers(options, kept):  # noqa: ARG001
    X, y, X_test, y_test = data(options.rows)
    scaler = StandardScaler().fit(X[:CHOSEN_ON])
    Z, Z_test = scaler.transform(X), scaler.transform(X_test)
    print(f"{X.shape[0]} × {X.shape[1]}; error, log-loss, seconds", flush=True)
    maps = Nystroem(n_components=300, gamma=1 / X.shape[1], random_state=0).fit(Z[:CHOSEN_ON])
    for name, features in (("SGDClassifier", lambda A: A), ("Nystroem, SGD", maps.transform)):
        clf, begun = SGDClassifier(loss="log_loss", random_state=0), time.perf_counter()
        for first in range(0, len(y), BATCH):
            part = slice(first, first + BATCH)
            clf.partial_fit(features(Z[part]), y[part], classes=[0, 1])
        seconds = time.perf_counter() - begun
        tell(name, seconds, quality(clf, features(Z_test), y_test))
    begun, seen = time.perf_counter(), BATCH
    while True:
        boosting = HistGradientBoostingClassifier(random_state=0).fit(X[:seen], y[:seen])
        if seen >= len(y):
            break
        seen = min(2 * seen, len(y))
    tell("boosting, as rows double", time.perf_counter() - begun, quality(boosting, X_test, y_test))
    forest(X[: options.forest_rows], y[: options.forest_rows], X_test, y_test)


def forest(X, y, X_test, y_test):
    """River's adaptive random forest, row by row."""
    from river.forest import ARFClassifier

    clf, begun = ARFClassifier(seed=0), time.perf_counter()
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        clf.learn_one(dict(enumerate(row)), label)
    seconds = time.perf_counter() - begun
    told = [clf.predict_proba_one(dict(enumerate(row))) for row in X_test[:5_000].tolist()]
    p = np.array([[one.get(c, 0.0) for c in (0, 1)] for one in told]) + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    found = {"error": 100 * np.mean(p.argmax(axis=1) != y_test[:5_000]),
             "loss": log_loss(y_test[:5_000], p)}  # fmt: skip
    tell(f"river's forest, {len(y)} rows", seconds, found)


def of_shuffles(options, kept):
    X, y, X_test, y_test = data(options.rows)
    clf, errors = settled(X, y), []
    for seed in options.seeds:
        order = np.random.default_rng(seed).permutation(len(y))
        stream = clone(clf)
        seconds = passed(stream, X[order], y[order])
        found = quality(stream, X_test, y_test)
        tell(f"order {seed}", seconds, found)
        kept.append({"order": seed, **found})
        errors.append(found["error"])
    print(f"  errors scatter by {np.ptp(errors):.2f} points")


def of_linear(options, kept):  # noqa: ARG001
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5_000, 10))
    y = (X @ rng.standard_normal(10) + rng.standard_normal(5_000) > 0).astype(int)
    given = {"kernel": "linear", "softness": 0.5, "bias": 1.0, "random_state": 0, "tol": 1e-5}
    stream = BayesPointClassifier(**given)
    probe = np.vstack([np.eye(10), np.zeros(10)])
    print("rows, angle between the means of w, in radians")
    for first in range(0, 5_000, 250):
        stream.partial_fit(X[first : first + 250], y[first : first + 250])
        if first % 1_250 == 1_000:
            batch = BayesPointClassifier(**given, inference="ep", cell_size=5_000)
            batch.fit(X[: first + 250], y[: first + 250])
            vectors = [weights(clf, probe) for clf in (stream, batch)]
            cosine = vectors[0] @ vectors[1] / np.prod([np.linalg.norm(v) for v in vectors])
            print(f"  {first + 250:6}  {np.arccos(min(cosine, 1.0)):.2e}", flush=True)


def weights(clf, probe):
    """Weights of a linear machine, from its outputs at the axes and at the origin."""
    length = np.sqrt((probe**2).sum(axis=1) + clf.bias_)
    outputs = clf.cosines(probe) * length
    return np.append(outputs[:-1] - outputs[-1], outputs[-1])


def of_drift(options, kept):  # noqa: ARG001
    rng = np.random.default_rng(0)
    X, half = rng.standard_normal((20_000, 5)), 10_000
    rules = X[:, 0] + X[:, 1] ** 2 - 1 > 0, X[:, 0] + X[:, 1] ** 2 - 1 <= 0
    y = np.where(np.arange(len(X)) < half, *rules).astype(int)
    given = {"gamma": 0.2, "softness": 0.1, "bias": 1.0, "random_state": 0, "n_jobs": -1}
    for half_life in (1_000, None):
        clf, errors = BayesPointClassifier(**given, half_life=half_life), []
        for first in range(0, len(y), 500):
            part = slice(first, first + 500)
            if first:
                errors.append(100 * np.mean(clf.predict(X[part]) != y[part]))
                kept.append({"rows": first, "error": errors[-1], "half_life": half_life})
            clf.partial_fit(X[part], y[part])
        before = np.mean(errors[half // 500 - 11 : half // 500 - 1])
        after = np.mean(errors[half // 500 - 1 + 10 : half // 500 - 1 + 14])
        print(
            f"half_life={half_life}: {before:.2f} % before the rule turns, {after:.2f} % from "
            f"5,000 to 7,000 rows later: {after / before:.2f} times",
            flush=True,
        )


PARTS = {
    "covertype": of_covertype, "memory": of_memory, "peers": of_peers, "shuffles": of_shuffles,
    "linear": of_linear, "drift": of_drift,
}  # fmt: skip


# ------------------------------------------------------------------------------------ pictures


def picture(kept, path):
    """Log-loss and memory by rows, or errors before and after a rule turns."""
    from matplotlib.figure import Figure

    drift = "half_life" in kept[0]
    figure = Figure(figsize=(7 if drift else 10, 4), layout="constrained")
    if drift:
        ax = figure.subplots()
        for half_life, colour, style in ((1_000, "#0072b2", "-"), (None, "#d55e00", "--")):
            rows = [row for row in kept if row["half_life"] == half_life]
            name = "no half-life" if half_life is None else f"half-life {half_life:,} rows"
            ax.plot([r["rows"] for r in rows], [r["error"] for r in rows], style, color=colour,
                    lw=2, label=name)  # fmt: skip
        ax.axvline(10_000, color="0.5", ls=":")
        ax.set_xlabel("rows seen", fontsize=14)
        ax.set_ylabel("error of the next 500 rows, %", fontsize=14)
        ax.legend(fontsize=13)
        ax.tick_params(labelsize=13)
    else:
        values = (("log_proba", "log-loss of new rows"), ("memory", "memory of the process, MB"))
        for ax, (name, label) in zip(figure.subplots(1, 2), values, strict=True):
            sign = -1 if name == "log_proba" else 1
            ax.plot([r["rows"] / 1e3 for r in kept], [sign * r[name] for r in kept], "o-", ms=4,
                    color="#0072b2", lw=2)  # fmt: skip
            ax.set_xlabel("rows seen, thousands", fontsize=14)
            ax.set_ylabel(label, fontsize=14)
            ax.set_ylim(bottom=0)
            ax.tick_params(labelsize=13)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--rows", type=int, help="of covertype; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=range(5), help="of shuffles")
    parser.add_argument("--forest-rows", type=int, default=50_000, help="of river's forest")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.picture is not None:
        return picture(json.loads(options.json.read_text()), options.picture)
    kept, begun = [], time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PARTS[options.part](options, kept)
    if options.json and kept:
        options.json.write_text(json.dumps(kept, indent=1))
    print(f"[{options.part}: {time.perf_counter() - begun:.0f} s]")
    return None


if __name__ == "__main__":
    main()
