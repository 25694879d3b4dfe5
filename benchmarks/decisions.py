"""Do decisions cost less, do sets hold the true class, and are limits per class kept?

    python benchmarks/decisions.py --part costs [--sets ...] [--splits 20]
    python benchmarks/decisions.py --part sets [--sets ...] [--splits 100]
    python benchmarks/decisions.py --part limits [--splits 200]
    python benchmarks/decisions.py --part joined --json FILE FILE ...

- costs: ten matrices, two for each of five tables, fixed below before anything was run. Mean cost
  of test rows: ours with ``costs``, beside its own most probable labels, a
  ``TunedThresholdClassifierCV`` around it (two classes), and a calibrated SVC and
  HistGradientBoosting with the same ``costs``. Costs are also given as shares of those of the best
  constant decision, for a mean over matrices.
- sets: coverage and size of sets of level 0.9, from held-out probabilities of the fit, overall and
  per class, beside MAPIE's split-conformal sets (score "lac", its default) of the same classifier,
  with 20 % and with 50 % of the same rows to conformalise; the smaller of the two are compared.
  MAPIE takes part where it is installed (``pip install mapie``). Splits are at random, as all that
  is known of coverage asks for rows that could change places; with ``--stratified`` the numbers of
  rows of each class are fixed, so that a row held out leaves one fewer of its own class, which a
  new row does not. Of Rätsch's sets but waveform each fit chooses its settings; of the others the
  first does. Where folds choose theirs as well, which is so below 400 rows, "one choice" has those
  of the fit instead, which all rows helped to choose.
- limits: how often a precision and a recall are broken, where the truth is known to 0.005: with
  ``cv="prefit"`` and naive Bayes, which is too sure, and with held-out probabilities of our fit.
- joined: the tables again, of what several runs left in their ``--json``; runs may have other sets,
  or go on with later splits (``--first``).

Where settings are chosen once for a set, for every method, it is on the training rows of the first
split (ours: its default search and ``settled()``; SVC and boosting: three folds over a grid); test
rows of other splits are among these. Tables are encoded once, without labels. Splits share rows, so
that standard errors over splits are rough. Data sets come from the folder named in BAYESPOINT_DATA.
"""

import argparse
import json
import os
import warnings
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.stats import binom
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, PredictionSetClassifier, RejectingClassifier
from bayespoint.estimators.costs import cost_matrix
from bayespoint.estimators.prediction_sets import FEW_ROWS
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.tables import read_table
from bayespoint.papers import datasets

TARGETS = {"spam": "type", "churn": "churn", "credit": "Status", "hpc": "class", "dna": "Class"}
RAETSCH = ("waveform", "heart", "breast-cancer", "diabetis", "thyroid")
SEARCHED = RAETSCH[1:]  # small enough to choose settings in every split
SETS = ("hpc", "churn", "dna", "digits", *RAETSCH[:4])  # the fifth is for a check of the others
MOST_WORDS = 100
COST_ROWS, SET_ROWS = 500, 300  # for training
TEST_ROWS = 1_000  # at most
LEVEL = 0.9
CONFORMAL_SHARES = (0.2, 0.5)
LIMITS, DELTA = (0.7, 0.8), 0.1
KNOWN_ROWS = 10_000  # to know a share to 0.005

# Jobs: very fast, fast, moderate, long. A job that is taken for a shorter one is killed.
JOBS = ("VF", "F", "M", "L")
KILLED = {a: {b: 3.0 * (i - j) if i > j else 1.0 * (j - i) for j, b in enumerate(JOBS)}
          for i, a in enumerate(JOBS)}  # fmt: skip
STEPS = {a: {b: float((i - j) ** 2) for j, b in enumerate(JOBS)} | {"reject": 0.5}
         for i, a in enumerate(JOBS)}  # fmt: skip

# Chosen before any run: true class, decision, cost.
COSTS = {
    # A mail that is lost costs ten that are not filtered; mails may be put aside.
    "spam, lost mail": ("spam", {
        "nonspam": {"nonspam": 0, "spam": 10}, "spam": {"nonspam": 1, "spam": 0}}),
    "spam, put aside": ("spam", {
        "nonspam": {"nonspam": 0, "spam": 10, "reject": 1},
        "spam": {"nonspam": 1, "spam": 0, "reject": 0.5}}),
    # A call costs 1, a customer who leaves 8, half of which a letter saves.
    "churn, call": ("churn", {"no": {"no": 0, "yes": 1}, "yes": {"no": 8, "yes": 1}}),
    "churn, call or letter": ("churn", {
        "no": {"no": 0, "yes": 1, "reject": 0.2}, "yes": {"no": 8, "yes": 1, "reject": 4.2}}),
    # A loan that is lost costs five customers who are sent away; a closer look costs 0.4.
    "credit, loss": ("credit", {"good": {"good": 0, "bad": 1}, "bad": {"good": 5, "bad": 0}}),
    "credit, closer look": ("credit", {
        "good": {"good": 0, "bad": 1, "reject": 0.4}, "bad": {"good": 5, "bad": 0, "reject": 0.4}}),
    "hpc, killed": ("hpc", KILLED),
    "hpc, squared steps": ("hpc", STEPS),
    # A junction that is overlooked costs four false ones, one of the wrong kind two.
    "dna, overlooked": ("dna", {
        "ei": {"ei": 0, "ie": 2, "n": 4}, "ie": {"ei": 2, "ie": 0, "n": 4},
        "n": {"ei": 1, "ie": 1, "n": 0}}),
    "dna, second look": ("dna", {
        a: {b: float(a != b) for b in ("ei", "ie", "n")} | {"reject": 0.1}
        for a in ("ei", "ie", "n")}),
}  # fmt: skip


# ------------------------------------------------------------------------------------- data


@cache
def table(name):
    path = Path(os.environ["BAYESPOINT_DATA"]) / "tables" / f"{name}.csv.gz"
    read = read_table(path, text=[TARGETS[name]])
    y = read.column(TARGETS[name])
    labelled = np.flatnonzero([label is not None for label in y])
    read, y = read.without([TARGETS[name]]).rows(labelled), y[labelled].astype(str)
    encoder = TableEncoder(MOST_WORDS).fit(read)
    groups = encoder.feature_groups_
    return encoder.transform(read), y, groups if len(set(groups)) < len(groups) else None


def divided(name, split, n_rows, stratified=True):
    """Training rows, at most so many, and others."""
    if name in RAETSCH:
        X, y, X_test, y_test = datasets.raetsch(name, split + 1)
        return X, y, X_test[:TEST_ROWS], y_test[:TEST_ROWS]
    X, y = load_digits(return_X_y=True) if name == "digits" else table(name)[:2]
    how = {"train_size": n_rows, "random_state": split, "stratify": y if stratified else None}
    X, X_test, y, y_test = train_test_split(X, y, **how)
    return X, y, X_test[:TEST_ROWS], y_test[:TEST_ROWS]


# ------------------------------------------------------------------------------- classifiers


@cache
def ours(name, n_rows):
    """Ours with the settings that its search chose on the first training rows."""
    X, y, *_ = divided(name, 0, n_rows)
    groups = table(name)[2] if name in TARGETS else None
    clf = BayesPointClassifier(random_state=0, feature_groups=groups)
    return clf.fit(X, y).settled()


@cache
def svc(name):
    X, y, *_ = divided(name, 0, COST_ROWS)
    grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": np.geomspace(1e-4, 0.1, 7)}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3)
    return CalibratedClassifierCV(clone(search.fit(X, y).best_estimator_), cv=5, ensemble=False)


@cache
def boosting(name):
    X, y, *_ = divided(name, 0, COST_ROWS)
    grid = {
        "learning_rate": [0.03, 0.1], "max_iter": [100], "max_leaf_nodes": [7, 31],
        "l2_regularization": [0, 1],
    }  # fmt: skip
    clf = HistGradientBoostingClassifier(random_state=0)
    search = GridSearchCV(clf, grid, cv=3, scoring="neg_log_loss")
    return clone(search.fit(X, y).best_estimator_)


# ------------------------------------------------------------------------------------- costs


class Fits:
    """What each method says of the test rows of a split; each fits once for all matrices."""

    def __init__(self, name, split):
        self.name = name
        self.X, self.y, self.X_test, self.y_test = divided(name, split, COST_ROWS)
        makers = {"ours": lambda: ours(name, COST_ROWS), "svc": lambda: svc(name),
                  "boosting": lambda: boosting(name)}  # fmt: skip
        self.fitted = {key: clone(make()).fit(self.X, self.y) for key, make in makers.items()}

    def costs(self, costs):
        """Mean cost on the test rows, by method; and of the best constant decision."""
        found = {}
        for key, fitted in self.fitted.items():
            clf = RejectingClassifier(fitted, costs=costs, cv="prefit").fit(self.X, self.y)
            found[key] = -clf.score(self.X_test, self.y_test)
        matrix = cost_matrix(costs, clf.classes_)
        true = np.searchsorted(clf.classes_, self.y_test)
        found["argmax"] = self.mean_of(matrix, true, self.fitted["ours"].predict(self.X_test))
        if len(matrix) == 2:
            found["threshold"] = self.tuned_threshold(matrix, true)
        found["constant"] = matrix[true].mean(axis=0).min()
        return found

    def mean_of(self, matrix, true, labels):
        return matrix[true, np.searchsorted(self.fitted["ours"].classes_, labels)].mean()

    def tuned_threshold(self, matrix, true):
        classes = self.fitted["ours"].classes_

        def gain(y, labels):
            return -matrix[np.searchsorted(classes, y), np.searchsorted(classes, labels)].mean()

        tuned = TunedThresholdClassifierCV(ours(self.name, COST_ROWS), scoring=make_scorer(gain))
        return self.mean_of(matrix, true, tuned.fit(self.X, self.y).predict(self.X_test))


PEERS = ("argmax", "threshold", "svc", "boosting")


def costs(options):
    found = {}
    for name in options.sets or TARGETS:
        fits = [Fits(name, split) for split in splits_of(options, 20)]
        for title, (of, matrix) in COSTS.items():
            if of == name:
                found[title] = [one.costs(matrix) for one in fits]
                print(
                    title, f"{np.mean([split['ours'] for split in found[title]]):.4f}", flush=True
                )
    report_costs(found)
    return found


def report_costs(found):
    n_splits = sorted({len(splits) for splits in found.values()})
    print(f"Mean cost of a test row, {COST_ROWS:,} training rows, {n_splits[0]} splits;")
    print("less ours ± standard error (above 0: ours costs less)")
    print(f"{'matrix':24s}{'ours':>8s}" + "".join(f"{peer:>18s}" for peer in PEERS))
    shares = {peer: [] for peer in PEERS}
    for title in (title for title in COSTS if title in found):
        splits = found[title]
        line = f"{title:24s}{np.mean([s['ours'] for s in splits]):8.4f}"
        for peer in PEERS:
            if peer in splits[0]:
                line += f"{spread([s[peer] - s['ours'] for s in splits], 4):>18s}"
                shares[peer].append([(s[peer] - s["ours"]) / s["constant"] for s in splits])
            else:
                line += f"{'–':>18s}"
        print(line)
    cells = (spread(np.mean(each, 0), 4) if each else "–" for each in shares.values())
    print(f"{'mean share of constant':32s}" + "".join(f"{cell:>18s}" for cell in cells), flush=True)


def splits_of(options, usual):
    return range(options.first, options.first + (options.splits or usual))


def spread(values, digits):
    """Mean and standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):+.{digits}f} ± {error:.{digits}f}"


# -------------------------------------------------------------------------------------- sets


def sized(sets, true, n_classes):
    """Coverage, mean size, share of empty sets, coverage of each class."""
    hit = sets[np.arange(len(true)), true]
    of_class = [hit[true == c].mean() if np.any(true == c) else np.nan for c in range(n_classes)]
    return [hit.mean(), sets.sum(1).mean(), (sets.sum(1) == 0).mean(), *of_class]


def conformal(clf, X, y, X_test, share, stratified):
    """MAPIE's sets; None where it is not installed."""
    try:
        from mapie.classification import SplitConformalClassifier
    except ImportError:
        return None
    how = {"test_size": share, "random_state": 0, "stratify": y if stratified else None}
    X, X_rest, y, y_rest = train_test_split(X, y, **how)
    mapie = SplitConformalClassifier(clone(clf).fit(X, y), confidence_level=LEVEL, prefit=True)
    return mapie.conformalize(X_rest, y_rest).predict_set(X_test)[1][:, :, 0]


def sets(options):
    found = {}
    for name in options.sets or SETS:
        found[name] = {}
        for split in splits_of(options, 100):
            of_split(found[name], name, split, options.stratified)
            if (split + 1) % 10 == 0:
                coverage = np.mean([values[0] for values in next(iter(found[name].values()))])
                print(f"{name}, {split + 1} splits: {coverage:.4f}", flush=True)
    report_all_sets(found)
    return found


def report_all_sets(found):
    smaller = 0
    print(f"Sets of level {LEVEL}: mean ± standard error")
    head = "".join(f"{c:>18s}" for c in ("coverage", "size", "empty"))
    print(f"{'set':14s}{'':18s}{head}   z, and of classes: least and most coverage, largest |z|")
    for name in (name for name in (*SETS, "thyroid") if name in found):
        for key, values in found[name].items():
            report_sets(name, key, np.array(values))
        size = {key: np.mean([v[1] for v in values]) for key, values in found[name].items()}
        peers = [size[key] for key in size if key.startswith("mapie")]
        if peers and "ours" in size:
            smaller += size["ours"] <= min(peers)
            print(f"{name:14s}size of ours / MAPIE's: {size['ours'] / min(peers):.3f}")
    print(f"At most MAPIE's size on {smaller} of {len(found)}", flush=True)


class Remembering(BayesPointClassifier):
    """Ours, which fits once for the same rows and settings: sets differ in how they calibrate."""

    fits: ClassVar = {}

    def fit(self, X, y):
        key = repr(self.get_params()), X.tobytes(), y.tobytes()
        if key in self.fits:
            self.__dict__.update(self.fits[key].__dict__)
            return self
        self.fits[key] = super().fit(X, y)
        return self


def of_split(found, name, split, stratified=False):
    X, y, X_test, y_test = divided(name, split, SET_ROWS, stratified)
    clf = BayesPointClassifier(random_state=0) if name in SEARCHED else ours(name, SET_ROWS)
    clf = Remembering(**clf.get_params())
    classes = np.unique(y)
    true = np.searchsorted(classes, y_test)
    ways = {
        "ours": {},
        "ours, per class": {"per_class": True},
        "ours, adaptive": {"adaptive": True},
    }
    if name in SEARCHED and len(y) < FEW_ROWS:
        ways["ours, one choice"] = {
            "estimator": Remembering(**clf.get_params()).fit(X, y).settled()
        }
    for key, how in ways.items():
        of = PredictionSetClassifier(clf, confidence_level=LEVEL).set_params(**how).fit(X, y)
        found.setdefault(key, []).append(sized(of.predict_set(X_test), true, len(classes)))
    Remembering.fits.clear()
    clf = BayesPointClassifier(**of.estimator_.settled().get_params())
    for share in CONFORMAL_SHARES:
        made = conformal(clf, X, y, X_test, share, stratified)
        if made is not None:
            found.setdefault(f"mapie, {share:.0%}", []).append(sized(made, true, len(classes)))


def report_sets(name, key, values):
    errors = np.nanstd(values, axis=0, ddof=1) / np.sqrt(len(values))
    with np.errstate(divide="ignore"):  # no split has an empty set
        z = (np.nanmean(values, axis=0) - LEVEL) / errors
    line = f"{name:14s}{key:18s}" + "".join(f"{spread(values[:, k], 4):>18s}" for k in range(3))
    line += f"  {z[0]:+5.1f}"
    if "per class" in key:
        of_class = np.nanmean(values[:, 3:], axis=0)
        line += f"  {of_class.min():.4f} {of_class.max():.4f} {np.nanmax(np.abs(z[3:])):5.1f}"
    print(line + f"  ({len(values)} splits)")


# ------------------------------------------------------------------------------------ limits


def cases(n, rng):
    """Two classes of two in three and one in three, whose features naive Bayes takes for apart."""
    y = (rng.random(n) < 1 / 3).astype(int)
    common = rng.standard_normal((n, 1))
    X = 0.8 * y[:, None] + common + 0.5 * rng.standard_normal((n, 5))
    X[:, :2] += 0.7 * np.where(y[:, None] == 1, 1, -1) * (rng.random((n, 1)) < 0.7)
    return X, y


def limits(options):
    runs = splits_of(options, 200)
    known = cases(KNOWN_ROWS, np.random.default_rng(0))
    X, y = cases(300, np.random.default_rng(1))
    point = BayesPointClassifier(random_state=0).fit(X, y).settled()
    found = {}
    for title, (clf, n_rows) in {
        "naive Bayes, prefit": (GaussianNB(), 500), "ours, held out": (point, 300)
    }.items():  # fmt: skip
        plain = clone(clf).fit(*cases(n_rows, np.random.default_rng(2))).predict(known[0])
        print(f"{title}: without limits precision {known[1][plain == 1].mean():.3f}, "
              f"recall {plain[known[1] == 1].mean():.3f}", flush=True)  # fmt: skip
        for limit in ("min_precision", "min_recall"):
            for share in LIMITS:
                of_runs = [one_run(clf, n_rows, limit, share, run, *known) for run in runs]
                found[f"{title}: {limit} {share:g}"] = of_runs
    report_limits(found)
    return found


def report_limits(found):
    n_runs = sorted({len(runs) for runs in found.values()})
    print(f"delta {DELTA:g}: in how many of {', '.join(map(str, n_runs))} runs limits are broken")
    for title, runs in found.items():
        shares, decided = np.array(runs).T
        least = float(title.split()[-1])
        given, broken = int(np.isfinite(shares).sum()), int(np.sum(shares < least))
        mean = np.nanmean(shares) if given else np.nan
        chance = binom.sf(broken - 1, len(runs), DELTA)
        print(
            f"{title:38s}: broken {broken:3d}, kept {given - broken:3d}, nothing to break "
            f"{len(runs) - given:3d} (P of so many broken at rate delta: {chance:.3f}); decided "
            f"{decided.mean():.3f}, share {mean:.3f}",
            flush=True,
        )


def one_run(clf, n_rows, limit, least, run, X_known, y_known):
    """True precision or recall of class 1, NaN where it is never given, and the share decided."""
    rng = np.random.default_rng([3, run])
    X, y = cases(n_rows, rng)
    how = {}
    if isinstance(clf, GaussianNB):
        clf, how = clone(clf).fit(X, y), {"cv": "prefit"}
        X, y = cases(n_rows, rng)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "min_")
        found = RejectingClassifier(clf, delta=DELTA, **{limit: {1: least}}, **how).fit(X, y)
    labels, rejected = found.decide(X_known)
    given = (labels == 1) & ~rejected
    if limit == "min_precision":
        share = y_known[given].mean() if given.any() else np.nan
    else:
        share = 1 - np.mean(((labels == 0) & ~rejected)[y_known == 1])
    return share, 1 - rejected.mean()


def joined(options):
    """Report what several runs have kept, the splits of each one after the other."""
    found = {"costs": {}, "sets": {}, "limits": {}}
    for path in options.json:
        for part, kept in json.loads(path.read_text()).items():
            add(found[part], kept)
    reports = {"costs": report_costs, "sets": report_all_sets, "limits": report_limits}
    for part, report in reports.items():
        if found[part]:
            report(found[part])


def add(found, kept):
    """Put lists that stand in mappings behind those found before."""
    for name, values in kept.items():
        if isinstance(values, dict):
            add(found.setdefault(name, {}), values)
        else:
            found.setdefault(name, []).extend(values)


PARTS = {"costs": costs, "sets": sets, "limits": limits, "joined": joined}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--splits", type=int)
    parser.add_argument("--first", type=int, default=0, help="number of the first split or run")
    parser.add_argument("--stratified", action="store_true", help="of sets: fixed class counts")
    parser.add_argument("--json", type=Path, nargs="+", help="to write, or to read for joined")
    options = parser.parse_args()
    kept = PARTS[options.part](options)
    if kept and options.json:
        options.json[0].write_text(json.dumps({options.part: kept}, default=float))
