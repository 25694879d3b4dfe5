"""A width for each feature: what it is worth, beside trees, boosting and SVC.

    python benchmarks/widths.py --part covertype | seven | raetsch | features

- covertype: class 2 against the rest, raw columns without a scaler, by the number of rows.
- seven: all its classes, all rows.
- raetsch: 13 sets as they are and with 20 columns of noise, defaults beside one width of the RBF
  kernel (unless ``--alone``) and, with ``--svc``, SVC tuned by five folds. Fits of one thread,
  ``--jobs`` at a time.
- features: Friedman's function with 45 idle features, ranks of importances; labels at random.

Data sets come from the folder named in BAYESPOINT_DATA. LightGBM takes part where it is installed.
"""

import argparse
import sys
import time
import warnings
from functools import partial
from itertools import islice

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier
from bayespoint.papers import datasets

SIZES = (3_000, 10_000, 50_000, None)
RAETSCH = (
    "image", "splice", "german", "banana", "breast-cancer", "diabetis", "flare-solar", "heart",
    "ringnorm", "thyroid", "titanic", "twonorm", "waveform",
)  # fmt: skip
FEW_SPLITS = {"image": 10, "splice": 10}
CLIPPED = 1e-3
MOST_SVC = 10_000
N_NOISE = 20


def ours(n_jobs=-1, **settings):
    return BayesPointClassifier(random_state=0, n_jobs=n_jobs, **settings)


def trees():
    return ExtraTreesClassifier(300, max_features=None, random_state=0, n_jobs=-1)


class TunedSVC:
    """SVC of scaled columns, tuned by five folds, with calibrated probabilities."""

    def __init__(self, n_jobs=-1):
        self.n_jobs = n_jobs

    def decided(self, X):
        """Classes by the sign of its outputs, without probabilities."""
        return self.best.calibrated_classifiers_[0].estimator.predict(X)

    def fit(self, X, y):
        grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": np.geomspace(1e-3, 1, 7)}
        svc = make_pipeline(StandardScaler(), SVC(cache_size=500))
        found = GridSearchCV(svc, grid, cv=5, n_jobs=self.n_jobs, refit=False).fit(X, y)
        svc.set_params(**found.best_params_)
        self.best = CalibratedClassifierCV(svc, cv=3, ensemble=False).fit(X, y)
        self.classes_ = self.best.classes_
        return self

    def predict_proba(self, X):
        return self.best.predict_proba(X)


def boosted():
    """Return LightGBM with early stopping, of 31 to 1,023 leaves; None where it is missing."""
    try:
        import lightgbm
    except ImportError:
        return None

    class Tuned:
        def fit(self, X, y):
            parts = train_test_split(X, y, test_size=0.1, random_state=0, stratify=y)
            fits = [self._fitted(lightgbm, leaves, *parts) for leaves in (31, 127, 511, 1023)]
            self.best = min(fits, key=lambda clf: next(iter(clf.best_score_["valid_0"].values())))
            self.classes_ = self.best.classes_
            return self

        def _fitted(self, lightgbm, leaves, X, X_valid, y, y_valid):
            clf = lightgbm.LGBMClassifier(
                n_estimators=5_000, learning_rate=0.05, num_leaves=leaves, verbose=-1
            )
            stop = lightgbm.early_stopping(50, verbose=False)
            return clf.fit(X, y, eval_set=[(X_valid, y_valid)], callbacks=[stop])

        def predict_proba(self, X):
            return self.best.predict_proba(X)

    return Tuned()


METHODS = {
    "bayespoint": ours,
    "ExtraTrees, all features": trees,
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "LightGBM, tuned": boosted,
    "SVC, tuned": TunedSVC,
}


def measured(make, X, y, X_test, y_test):
    """Error in percent, log-loss, and seconds of fit and prediction."""
    clf = make()
    if clf is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.perf_counter()
        clf.fit(X, y)
        fitted = time.perf_counter()
        p = clf.predict_proba(X_test)
        seconds = fitted - begun, time.perf_counter() - fitted
    if isinstance(clf, ExtraTreesClassifier):
        p = np.clip(p, CLIPPED, 1 - CLIPPED)
        p /= p.sum(axis=1, keepdims=True)
    error = 100 * np.mean(clf.classes_[p.argmax(axis=1)] != y_test)
    return clf, error, log_loss(y_test, p, labels=clf.classes_), *seconds


def covertype(two=True):
    X, y = datasets.load("covtype")
    parts = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    X, X_test, y, y_test = parts
    return (X, (y == 1).astype(int), X_test, (y_test == 1).astype(int)) if two else (
        X, y, X_test, y_test)  # fmt: skip


def beside(data, methods):
    X, y, *_ = data
    print(f"{X.shape[0]} × {X.shape[1]}, {len(np.unique(y))} classes", flush=True)
    for name in methods:
        if name == "SVC, tuned" and len(y) > MOST_SVC:
            continue
        found = measured(METHODS[name], *data)
        if found is None:
            print(f"  {name:26} not installed")
            continue
        clf, error, loss, *seconds = found
        print(
            f"  {name:26}{error:7.2f} %{loss:9.4f}   fit {seconds[0]:6.1f} s, "
            f"prediction {seconds[1]:5.1f} s",
            flush=True,
        )
        if name == "bayespoint":
            print(f"    {clf.gamma_choice_['chosen']}, by {clf.inference_}")


def warmed(data, device):
    """Return the data, once a small fit has loaded and compiled what a GPU needs."""
    X, y, X_test, _ = data
    if device != "cpu":
        ours(device=device).fit(X[:20_000], y[:20_000]).predict_proba(X_test[:1_000])
    return data


def by_rows(options):
    X, y, X_test, y_test = warmed(covertype(), options.device)
    order = np.random.default_rng(0).permutation(len(y))
    for size in options.sizes or SIZES:
        rows = order[:size]
        beside((X[rows], y[rows], X_test, y_test), options.methods)


def seven(options):
    beside(warmed(covertype(two=False), options.device), options.methods)


RAETSCH_METHODS = {
    "defaults": lambda _: ours(n_jobs=1),
    "one width": lambda width: ours(n_jobs=1, kernel="rbf", feature_groups=[0] * width),
    "SVC, tuned": lambda _: TunedSVC(n_jobs=1),
}


def raetsch(options):
    asked = {"defaults": True, "one width": not options.alone, "SVC, tuned": options.svc}
    methods = [name for name in RAETSCH_METHODS if asked[name]]
    columns = [*methods, "SVC, by its sign"] if options.svc else methods
    for n_noise in options.noise:
        sets = options.sets or RAETSCH
        splits = [min(options.splits, FEW_SPLITS.get(name, options.splits)) for name in sets]
        found = Parallel(options.jobs, return_as="generator")(
            delayed(raetsch_fits)(name, number, n_noise, methods)
            for name, n in zip(sets, splits, strict=True)
            for number in range(1, n + 1)
        )
        beside = "; defaults - one width, ± s.e." if "one width" in methods else ""
        print(f"columns of noise: {n_noise}; error in %, log-loss{beside}")
        print(f"{'':14}" + "".join(f"{name:>18}" for name in columns), flush=True)
        means = []
        for name, n in zip(sets, splits, strict=True):
            part = np.array(list(islice(found, n)))
            means.append(part.mean(axis=0))
            told = f"{name:14}{pairs(means[-1])}"
            if "one width" in methods:
                gain = part[:, 0, 1] - part[:, 1, 1]
                error = gain.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
                told += f"   {gain.mean():+.4f} ± {error:.4f}"
            print(told, flush=True)
        print(f"{'mean':14}{pairs(np.mean(means, axis=0))}", flush=True)


def pairs(found):
    told = (f"{e:.2f}" if np.isnan(loss) else f"{e:.2f}, {loss:.4f}" for e, loss in found)
    return "".join(f"{one:>18}" for one in told)


def raetsch_fits(name, number, n_noise, methods):
    """Error and log-loss of each method on a split; SVC, last, also decides by its sign."""
    split = split_of(name, number, n_noise)
    makers = (partial(RAETSCH_METHODS[method], split[0].shape[1]) for method in methods)
    measures = [measured(make, *split) for make in makers]
    found = [(error, loss) for _, error, loss, *_ in measures]
    if isinstance(clf := measures[-1][0], TunedSVC):
        found.append((100 * np.mean(clf.decided(split[2]) != split[3]), np.nan))
    return found


def split_of(name, number, n_noise):
    X, y, X_test, y_test = datasets.raetsch(name, number)
    rng = np.random.default_rng(number)
    X, X_test = (np.hstack([Z, rng.standard_normal((len(Z), n_noise))]) for Z in (X, X_test))
    return X, y, X_test, y_test


def features(options):
    found = Parallel(options.jobs)(delayed(feature_fits)(k) for k in range(options.splits))
    for seed, (ranked, most) in enumerate(found):
        print(f"  {seed}: first {ranked}; labels at random: {most:.2f}", file=sys.stderr)
    first = sum(set(ranked) == set(range(5)) for ranked, _ in found)
    quiet = sum(most < norm.isf(0.05 / 50) for _, most in found)
    print(f"the five that matter first in {first} of {options.splits} runs")
    print(f"labels at random: none beyond Bonferroni's bound in {quiet} of {options.splits}")


def feature_fits(seed):
    """The first five features, and the largest importance over its error of labels at random."""
    rng = np.random.default_rng(seed)
    X = rng.random((1_000, 50))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    f += 10 * X[:, 3] + 5 * X[:, 4]
    clf = ours(n_jobs=1).fit(X, f + rng.standard_normal(1_000) > np.median(f))
    ranked = np.argsort(-clf.feature_importances_)[:5].tolist()
    clf = ours(n_jobs=1).fit(X, rng.integers(0, 2, 1_000))
    return ranked, np.max(clf.feature_importances_ / clf.feature_importances_std_)


PARTS = {"covertype": by_rows, "seven": seven, "raetsch": raetsch, "features": features}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--sets", nargs="+", choices=RAETSCH)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--noise", nargs="+", type=int, default=(0, N_NOISE), help="of raetsch")
    parser.add_argument(
        "--jobs", type=int, default=2, help="fits of raetsch and features at a time"
    )
    parser.add_argument("--device", default="cpu", help="of bayespoint; covertype and seven")
    parser.add_argument("--svc", action="store_true", help="tuned SVC beside Rätsch's sets")
    parser.add_argument("--alone", action="store_true", help="no single width beside these")
    options = parser.parse_args()
    METHODS["bayespoint"] = partial(ours, device=options.device)
    begun = time.perf_counter()
    PARTS[options.part](options)
    print(f"[{options.part}: {time.perf_counter() - begun:.0f} s]")


if __name__ == "__main__":
    main()
