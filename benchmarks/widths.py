"""A width for each feature: what it is worth, beside trees, boosting and SVC.

    python benchmarks/widths.py --part covertype | seven | raetsch | features

- covertype: class 2 against the rest, raw columns without a scaler, by the number of rows.
- seven: all its classes, all rows.
- raetsch: 13 sets as they are and with 20 columns of noise, defaults beside one width (by the
  evidence) and, with ``--svc``, SVC tuned by five folds.
- features: Friedman's function with 45 idle features, ranks of importances; labels at random.

Data sets come from the folder named in BAYESPOINT_DATA. LightGBM takes part where it is installed.
"""

import argparse
import time
import warnings

import numpy as np
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
    "banana", "breast-cancer", "diabetis", "flare-solar", "german", "heart", "image", "ringnorm",
    "splice", "thyroid", "titanic", "twonorm", "waveform",
)  # fmt: skip
FEW_SPLITS = {"image": 10, "splice": 10}
CLIPPED = 1e-3
MOST_SVC = 10_000
N_NOISE = 20


def ours(**settings):
    return BayesPointClassifier(random_state=0, n_jobs=-1, **settings)


def trees():
    return ExtraTreesClassifier(300, max_features=None, random_state=0, n_jobs=-1)


def tuned_svc():
    grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": np.geomspace(1e-3, 1, 7)}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=5, n_jobs=-1)
    return CalibratedClassifierCV(search, cv=3, ensemble=False)


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
    "SVC, tuned": tuned_svc,
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


def by_rows(options):
    X, y, X_test, y_test = covertype()
    order = np.random.default_rng(0).permutation(len(y))
    for size in options.sizes or SIZES:
        rows = order[:size]
        beside((X[rows], y[rows], X_test, y_test), options.methods)


def seven(options):
    beside(covertype(two=False), options.methods)


def raetsch(options):
    methods = {"defaults": ours, "one width": lambda: ours(gamma="evidence")}
    if options.svc:
        methods["SVC, tuned"] = tuned_svc
    for n_noise in (0, N_NOISE):
        print(f"columns of noise: {n_noise}; error in %, log-loss")
        print(f"{'':14}" + "".join(f"{name:>20}" for name in methods))
        total = []
        for name in options.sets or RAETSCH:
            splits = min(options.splits, FEW_SPLITS.get(name, options.splits))
            found = [
                [measured(make, *split_of(name, k, n_noise))[1:3] for make in methods.values()]
                for k in range(1, splits + 1)
            ]
            mean = np.mean(found, axis=0)
            total.append(mean)
            cells = (f"{error:.2f}, {loss:.4f}" for error, loss in mean)
            print(f"{name:14}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
        cells = (f"{error:.2f}, {loss:.4f}" for error, loss in np.mean(total, axis=0))
        print(f"{'mean':14}" + "".join(f"{cell:>20}" for cell in cells))


def split_of(name, number, n_noise):
    X, y, X_test, y_test = datasets.raetsch(name, number)
    rng = np.random.default_rng(number)
    X, X_test = (np.hstack([Z, rng.standard_normal((len(Z), n_noise))]) for Z in (X, X_test))
    return X, y, X_test, y_test


def features(options):
    first, quiet = 0, 0
    for seed in range(options.splits):
        rng = np.random.default_rng(seed)
        X = rng.random((1_000, 50))
        f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
        f += 10 * X[:, 3] + 5 * X[:, 4]
        clf = ours().fit(X, f + rng.standard_normal(1_000) > np.median(f))
        ranked = np.argsort(-clf.feature_importances_)[:5]
        first += set(ranked) == set(range(5))
        clf = ours().fit(X, rng.integers(0, 2, 1_000))
        most = np.max(clf.feature_importances_ / clf.feature_importances_std_)
        quiet += most < norm.isf(0.05 / 50)
        print(f"  {seed}: first {ranked.tolist()}; labels at random: {most:.2f}", flush=True)
    print(f"the five that matter first in {first} of {options.splits} runs")
    print(f"labels at random: none beyond Bonferroni's bound in {quiet} of {options.splits}")


PARTS = {"covertype": by_rows, "seven": seven, "raetsch": raetsch, "features": features}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--sets", nargs="+", choices=RAETSCH)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--svc", action="store_true", help="tuned SVC beside Rätsch's sets")
    options = parser.parse_args()
    begun = time.perf_counter()
    PARTS[options.part](options)
    print(f"[{options.part}: {time.perf_counter() - begun:.0f} s]")


if __name__ == "__main__":
    main()
