"""Noisy labels: samplers, wrong labels found and counted, two uncertainties, labels asked for.

    python benchmarks/noise.py [--part gibbs doubt calibration uncertainty queries]
        [--runs N] [--sets NAME ...] [--rates Q ...] [--kinds uniform confused] [--methods NAME ...]
        [--first N] [--jobs N] [--same]

- gibbs: effective draws of the number of training errors a second, kernel Gibbs sampler beside the
  noisy billiard, on sonar, wbc and the digits 3 and 5 of USPS.
- doubt: 5 % and 20 % of the labels wrong, uniform (any other class) or confused (the next class),
  on wbc, dna, spam, 5,000 rows of covertype and 3,000 of USPS: precision among as many rows as are
  wrong, area under precision-recall and seconds, by fits with chosen settings (the default), with
  those of ``bayespoint doubt --quick`` and with these but all rows at once ("fixed"), and by
  cleanlab (needs cleanlab) with five folds of SVC and of HistGradientBoosting as they are, and of
  SVC whose C and gamma are chosen beforehand ("tuned").
- calibration: expected and actual number of wrong labels, two to ten classes, each label flipped
  with a known rate, which the fit is given or has to find; made data are made anew for each run,
  or flipped again and again (--same).
- uncertainty: both parts of the entropy as training rows double, on data of the prior with known
  noise, and far from all data.
- queries: test errors as labels are asked for by entropy and BALD, at random and by the uncertainty
  of SVC, on four sets.

The experiment of KGS figure 4 is an item of ``bayespoint reproduce``. Data sets come from the
folder named in BAYESPOINT_DATA.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr, xlogy
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, VersionSpace, active, inference
from bayespoint.cli.doubt.command import QUICK
from bayespoint.papers import datasets
from bayespoint.papers.reproduction.tools import stderr
from bayespoint.space import diagnostics

SECONDS = 20.0
NOISE = 0.05

# Settings that do not depend on the labels.
FIXED = {"gamma": "scale", "bias": 1.0, "softness": 0.1}

BATCH = 10


def usps(first, second, test=False):
    X, y, X_test, y_test = datasets.load("usps")
    X, y = (X_test, y_test) if test else (X, y)
    kept = np.isin(y, (first, second))
    return X[kept], np.where(y[kept] == first, -1, 1)


def noisy_spaces():
    for name, (X, y) in {
        "sonar": datasets.load("sonar"),
        "wbc": datasets.load("wbc"),
        "usps 3/5": usps(3, 5),
    }.items():
        _, first = np.unique(np.column_stack([X, y]), axis=0, return_index=True)
        X, y = StandardScaler().fit_transform(X[first]), y[first]
        K = (rbf_kernel(X, gamma=1 / X.shape[1]) + 1) / 2
        yield name, VersionSpace(K, y)


def gibbs(_):
    print(f"Training errors at label noise {NOISE}: {SECONDS:.0f} s each, 4 chains, 2 threads")
    print(
        f"{'data':10}{'m':>6}{'sampler':>10}{'steps':>9}{'mean':>8}{'R-hat':>7}{'ESS':>9}{'ESS/s':>9}"
    )
    for name, space in noisy_spaces():
        rate = {}
        for sampler in (inference.sample_gibbs, inference.sample_billiard):
            sampler(space, 4, label_noise=NOISE, random_state=0)  # compiles
            begun = time.perf_counter()
            post = sampler(
                space, 400_000 if len(space) < 500 else 60_000, label_noise=NOISE,
                max_time=SECONDS, n_jobs=2, random_state=1,
            )  # fmt: skip
            seconds = time.perf_counter() - begun
            errors = post.info["errors"].reshape(post.n_chains, -1)
            ess, rhat = diagnostics.ess(errors), diagnostics.rhat(errors)
            rate[sampler] = ess / seconds
            print(
                f"{name:10}{len(space):6}{sampler.__name__[7:]:>10}{post.n_draws:9}"
                f"{errors.mean():8.2f}{rhat:7.2f}{ess:9.0f}{ess / seconds:9.2f}"
            )
        ratio = rate[inference.sample_billiard] / rate[inference.sample_gibbs]
        print(f"{name:10}{len(space):6}  billiard / gibbs: {ratio:.0f}")


# ---------------------------------------------------------------------- which labels are wrong


TABLES = {"dna": "Class", "spam": "type"}
SETS = ("wbc", "dna", "spam", "covertype", "usps")
ROWS = {"covertype": 5_000, "usps": 3_000}


def data_set(name):
    """X, and y as class numbers."""
    if name in TABLES:
        folder = Path(os.environ[datasets.VARIABLE]) / "tables"
        table = pd.read_csv(folder / f"{name}.csv.gz")
        X, y = table.drop(columns=TABLES[name]).to_numpy(float), table[TABLES[name]].to_numpy()
    else:
        X, y = datasets.load("covtype" if name == "covertype" else name)[:2]
    if name in ROWS:
        some = np.random.default_rng(0).permutation(len(y))[: ROWS[name]]
        X, y = X[some], y[some]
    return np.asarray(X, dtype=float), np.unique(y, return_inverse=True)[1]


def with_flips(y, rate, kind, rng):
    """Labels, each wrong with a probability: any other class, or the next one."""
    n_classes = y.max() + 1
    step = 1 if kind == "confused" else rng.integers(1, n_classes, len(y))
    return np.where(rng.random(len(y)) < rate, (y + step) % n_classes, y)


def by_us(**settings):
    def doubted(X, noisy, seed, n_jobs):
        clf = BayesPointClassifier(n_jobs=n_jobs, random_state=seed, **settings)
        X = StandardScaler().fit_transform(X) if settings else X
        return clf.fit(X, noisy).label_error_proba_

    return doubted


def by_cleanlab(model):
    def doubted(X, noisy, seed, n_jobs):
        from cleanlab.rank import get_label_quality_scores

        one = clone(model).set_params(
            **{name: seed for name in SEEDS if name in model.get_params()}
        )
        proba = cross_val_predict(one, X, noisy, cv=5, method="predict_proba", n_jobs=n_jobs)
        return -get_label_quality_scores(noisy, proba)

    return doubted


def by_tuned_svc(X, noisy, seed, n_jobs):
    grid = {"svc__C": (0.3, 1, 3, 10), "svc__gamma": np.array((0.25, 1, 4)) / X.shape[1]}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3, n_jobs=n_jobs)
    chosen = search.fit(X, noisy).best_params_
    return by_cleanlab(clone(UNTUNED).set_params(**chosen))(X, noisy, seed, n_jobs)


SEEDS = ("random_state", "svc__random_state")
ALL_ROWS = {"cell_size": "auto", "n_landmarks": "auto"}
UNTUNED = make_pipeline(StandardScaler(), SVC(probability=True))
DOUBTS = {
    "ours": by_us(),
    "fixed": by_us(**QUICK | ALL_ROWS),
    "quick": by_us(**QUICK),
    "SVC": by_cleanlab(UNTUNED),
    "HistGB": by_cleanlab(HistGradientBoostingClassifier()),
    "tuned": by_tuned_svc,
}


def doubt(arguments):
    X, y = make_classification(200, n_classes=3, n_informative=4, random_state=0)
    by_us(**QUICK | {"cell_size": 50})(X, y, 0, 1)  # compiles
    print(f"{'data':32}{'wrong':>6}{'':10}{'method':8}{'precision':>10}{'area':>8}{'seconds':>9}")
    for name in arguments.sets or SETS:
        X, y = data_set(name)
        for rate in arguments.rates or (0.05, 0.2):
            for kind in arguments.kinds if y.max() > 1 else ("uniform",):
                for method in arguments.methods:
                    found = []
                    for run in range(arguments.first, arguments.first + (arguments.runs or 3)):
                        noisy = with_flips(y, rate, kind, np.random.default_rng(run))
                        wrong, begun = noisy != y, time.perf_counter()
                        score = DOUBTS[method](X, noisy, run, arguments.jobs)
                        seconds = time.perf_counter() - begun
                        top = np.argsort(-score, kind="stable")[: wrong.sum()]
                        area = average_precision_score(wrong, score)
                        found.append((wrong[top].mean(), area, seconds))
                    values = np.mean(found, axis=0)
                    data = f"{name}, {len(y)} rows, {y.max() + 1} classes"
                    print(
                        f"{data:32}{100 * rate:4.0f} % {kind:10}{method:8}{values[0]:10.3f}"
                        f"{values[1]:8.3f}{values[2]:9.1f}",
                        flush=True,
                    )


# ---------------------------------------------------------------------- how many labels are wrong


def made(n_classes, seed):
    return make_classification(
        400, 12, n_informative=10, n_redundant=0, n_classes=n_classes, class_sep=2.5,
        n_clusters_per_class=1, flip_y=0.0, random_state=seed,
    )  # fmt: skip


def calibration_sets(anew):
    """Name, and X and y of a run: made for each run, or always the same."""
    for n in (2, 3, 5, 10):
        first = 1000 * n if anew else n
        yield f"made, {n} classes", lambda run, n=n, first=first: made(n, first + anew * run)
    X, y = load_digits(return_X_y=True)
    digits = X[:400] / 16, y[:400]
    X, y = data_set("wbc")
    wbc = StandardScaler().fit_transform(X), y
    X, y = data_set("dna")
    dna = X[:400], y[:400]
    yield "digits, 10 classes", lambda _: digits
    yield "wbc, 2 classes", lambda _: wbc
    yield "dna, 3 classes", lambda _: dna


def calibration(arguments):
    runs, rates = arguments.runs or 20, arguments.rates or (0.05, 0.2)
    print(f"Wrong labels: actual number, expected less actual (± standard error), {runs} times")
    print(f"{'data':22}{'rate':>6}{'given':>7}{'actual':>8}{'expected - actual':>20}{'held':>7}")
    for name, data_of in calibration_sets(not arguments.same):
        if arguments.sets and not any(name.startswith(s) for s in arguments.sets):
            continue
        for rate in rates:
            for given in (rate, 0.0):
                rows = []
                for run in range(runs):
                    X, y = data_of(run)
                    noisy = with_flips(y, rate, "uniform", np.random.default_rng(run))
                    clf = BayesPointClassifier(
                        kernel="rbf", gamma="scale", bias=1.0, inference="ep", label_noise=given,
                        n_jobs=arguments.jobs, random_state=run,
                    ).fit(X, noisy)  # fmt: skip
                    actual = np.count_nonzero(noisy != y)
                    expected, low, high = clf.n_label_errors_
                    rows.append((actual, expected - actual, low <= actual <= high))
                actual, off, held = np.array(rows, dtype=float).T
                print(
                    f"{name:22}{rate:6.2f}{'yes' if given else 'no':>7}{actual.mean():8.1f}"
                    f"{off.mean():+12.2f} ± {stderr(off):.2f}{int(held.sum()):5}/{runs}",
                    flush=True,
                )


# ---------------------------------------------------------------------- labels asked for


QUERIED = 100


def pools():
    """Name, pool and test rows of four sets."""
    yield "usps 3/5", *usps(3, 5), *usps(3, 5, test=True)
    digits, label = load_digits(return_X_y=True)
    yield "digits", digits[:1200] / 16, label[:1200], digits[1200:] / 16, label[1200:]
    for name in ("wbc", "dna"):
        X, y = data_set(name)
        order = np.random.default_rng(0).permutation(len(y))
        X, y = StandardScaler().fit_transform(X[order]), y[order]
        half = min(len(y) // 2, 1000)
        yield name, X[:half], y[:half], X[half:], y[half:]


def asked_for(X, y, first, seed, strategy):
    """Rows labelled, in batches of ten: by our strategies, by SVC, or at random."""
    labelled, rng = list(first), np.random.default_rng(seed)
    while len(labelled) < QUERIED:
        pool = np.setdiff1d(np.arange(len(y)), labelled)
        if strategy == "random":
            chosen = rng.permutation(len(pool))[:BATCH]
        elif strategy == "SVC":
            svc = SVC(probability=True, random_state=seed).fit(X[labelled], y[labelled])
            proba = svc.predict_proba(X[pool])
            chosen = np.argsort(np.sum(xlogy(proba, proba), axis=1), kind="stable")[:BATCH]
        else:
            clf = BayesPointClassifier(inference="ep", random_state=seed, **FIXED)
            clf.fit(X[labelled], y[labelled])
            chosen = active.query(clf, X[pool], BATCH, strategy=strategy, random_state=seed)
        labelled += pool[chosen].tolist()
    return labelled


def queries(arguments):
    runs = arguments.runs or 20
    print(f"Test error in % with {QUERIED} labels of a pool, {runs} runs; less random, paired")
    for name, X, y, X_test, y_test in pools():
        if arguments.sets and name.split()[0] not in arguments.sets:
            continue
        errors: dict = {}
        for run in range(runs):
            rng = np.random.default_rng(run)
            of_each = [rng.permutation(np.flatnonzero(y == c))[:5] for c in np.unique(y)]
            first = np.concatenate(of_each).tolist()
            for strategy in ("random", "entropy", "bald", "SVC"):
                rows = asked_for(X, y, first, run, strategy)
                for model, clf in {
                    "ours": BayesPointClassifier(inference="ep", random_state=run, **FIXED),
                    "SVC": SVC(),
                }.items():
                    wrong = np.mean(clf.fit(X[rows], y[rows]).predict(X_test) != y_test)
                    errors.setdefault((strategy, model), []).append(100 * wrong)
        for (strategy, model), wrong in errors.items():
            paired = np.array(wrong) - errors["random", model]
            print(
                f"  {name:10} asked by {strategy:8} tested with {model:5}"
                f"{np.mean(wrong):7.2f} ± {stderr(np.array(wrong)):.2f}"
                f"{paired.mean():+9.2f} ± {stderr(paired):.2f}",
                flush=True,
            )


# ---------------------------------------------------------------------- two uncertainties


SOFTNESS, GAMMA, BIAS = 0.1, 0.7, 0.1


def with_known_noise(n, rng, n_new=200):
    """Rows and labels by a function of the prior and softness; new rows and their entropy."""
    X, y = rng.uniform(-2, 2, size=(n + n_new, 2)), np.zeros(n, dtype=bool)
    K = (rbf_kernel(X, gamma=GAMMA) + BIAS) / (1 + BIAS) + 1e-8 * np.eye(len(X))
    while len(np.unique(y[:100])) < 2:
        f = np.linalg.cholesky(K) @ rng.standard_normal(len(X))
        y = f[:n] + np.sqrt(SOFTNESS) * rng.standard_normal(n) > 0
    p = ndtr(f[n:] / np.sqrt(SOFTNESS))
    return X[:n], y, X[n:], np.mean(-xlogy(p, p) - xlogy(1 - p, 1 - p))


def uncertainty(arguments):
    runs, sizes = arguments.runs or 20, (100, 200, 400, 800)
    print(f"Functions of the prior: mean entropy in nats, {runs} runs")
    print(
        f"{'inference':12}{'rows':>6}{'removable':>18}{'irreducible':>18}{'less the noise':>20}"
        f"{'removable far away':>20}"
    )
    for settings in ({}, {"cell_size": 100}, {"inference": "billiard"}):
        found: dict = {n: [] for n in sizes}
        for run in range(runs):
            X, y, new, known = with_known_noise(max(sizes), np.random.default_rng(run))
            for n in sizes:
                clf = BayesPointClassifier(
                    **{"inference": "ep"} | settings, gamma=GAMMA, softness=SOFTNESS, bias=BIAS,
                    random_state=run,
                ).fit(X[:n], y[:n])  # fmt: skip
                far = np.ravel(clf.predict_uncertainty(np.full((1, 2), 1e3)))
                inside = np.mean(clf.predict_uncertainty(new), axis=1)
                found[n].append([*inside, inside[1] - known, 100 * far[0] / far.sum()])
        for n, rows in found.items():
            a, b, c, d = np.mean(rows, axis=0)
            da, db, dc, _ = (stderr(x) for x in np.array(rows).T)
            name = ", ".join(map(str, settings.values())) or "ep"
            print(
                f"{name:12}{n:6}{a:10.4f} ± {da:.4f}{b:10.4f} ± {db:.4f}{c:+12.4f} ± {dc:.4f}"
                f"{d:18.0f} %",
                flush=True,
            )


PARTS = {
    "gibbs": gibbs, "doubt": doubt, "calibration": calibration,
    "uncertainty": uncertainty, "queries": queries,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--sets", nargs="+", help="of doubt, calibration and queries")
    parser.add_argument("--rates", nargs="+", type=float, help="of doubt and calibration")
    parser.add_argument("--methods", nargs="+", choices=DOUBTS, default=list(DOUBTS))
    parser.add_argument("--kinds", nargs="+", default=["uniform", "confused"])
    parser.add_argument("--first", type=int, default=0, help="number of the first run of doubt")
    parser.add_argument(
        "--jobs", type=int, default=2, help="threads or processes of doubt and calibration"
    )
    parser.add_argument(
        "--same", action="store_true", help="calibration: one made data set for all runs"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in arguments.part:
        begun = time.perf_counter()
        PARTS[part](arguments)
        print(f"[{part}: {time.perf_counter() - begun:.0f} s]\n", flush=True)


if __name__ == "__main__":
    main()
