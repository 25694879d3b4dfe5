"""Noisy labels: samplers, wrong labels found, labels asked for.

    python benchmarks/noise.py [--part gibbs labels active] [--runs N]

- gibbs: effective draws of the number of training errors a second, kernel Gibbs sampler beside the
  noisy billiard, on sonar, wbc and the digits 3 and 5 of USPS.
- labels: 5 % of the labels flipped; share of the flips among the most suspicious 8 %, by
  label_error_proba_ and by cleanlab (needs cleanlab).
- active: digits 3 and 5 of USPS: 80 labels asked for beside 200 random ones (needs
  scikit-activeml).

The experiment of KGS figure 4 is an item of ``bayespoint reproduce``. Data sets come from the
folder named in BAYESPOINT_DATA.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, VersionSpace, active, inference
from bayespoint.papers import datasets
from bayespoint.papers.reproduction.tools import stderr
from bayespoint.space import diagnostics

SECONDS = 20.0
NOISE = 0.05

# Settings that do not depend on the labels.
FIXED = {"gamma": "scale", "bias": 1.0, "softness": 0.1}

FLIPPED = 0.05
REVIEWED = 0.08

FIRST_LABELS = 10
BATCH = 10
ASKED = 80
RANDOM = 200


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


def cleanlab_ranks(X, y, seed):
    """Label quality by cleanlab from held-out probabilities of several classifiers; low is bad."""
    from cleanlab.rank import get_label_quality_scores

    classifiers = {
        "logistic": LogisticRegression(max_iter=5000),
        "svc": SVC(probability=True, random_state=seed),
        "ours": BayesPointClassifier(inference="perceptron", random_state=seed, **FIXED),
    }
    for name, clf in classifiers.items():
        proba = cross_val_predict(clf, X, y, cv=5, method="predict_proba", n_jobs=2)
        yield f"cleanlab, {name}", get_label_quality_scores((y > 0).astype(int), proba)


def labels(runs):
    runs = runs or 20
    for name, (X, y) in {"wbc": datasets.load("wbc"), "usps 3/8": usps(3, 8)}.items():
        found: dict = {}
        differences, seconds = [], []
        for run in range(runs):
            rng = np.random.default_rng(run)
            flips = rng.permutation(len(y))[: round(FLIPPED * len(y))]
            noisy = y.copy()
            noisy[flips] *= -1
            both = []
            for seed in (run, 1000 + run):
                begun = time.perf_counter()
                clf = BayesPointClassifier(
                    label_noise=NOISE, n_draws=400, n_jobs=2, random_state=seed,
                    inference="billiard", **FIXED,
                ).fit(X, noisy)  # fmt: skip
                seconds.append(time.perf_counter() - begun)
                both.append(clf.label_error_proba_)
            differences.append(np.abs(both[0] - both[1]).max())
            scores = {"label_error_proba_": -both[0]} | dict(cleanlab_ranks(X, noisy, run))
            for method, score in scores.items():
                top = np.argsort(score, kind="stable")[: round(REVIEWED * len(y))]
                found.setdefault(method, []).append(np.isin(flips, top).mean())
        print(f"{name}: {len(y)} labels, {len(flips)} flipped, {runs} times; found in the top 8 %")
        for method, shares in found.items():
            shares = np.array(shares)
            paired = np.array(found["label_error_proba_"]) - shares
            print(
                f"  {method:20} {100 * shares.mean():6.1f} ± {100 * stderr(shares):.1f} %   ours - "
                f"this {100 * paired.mean():+.1f} ± {100 * stderr(paired):.1f}"
            )
        print(
            f"  two runs differ by at most {max(differences):.3f} (median of runs "
            f"{np.median(differences):.3f}); a fit takes {np.median(seconds):.1f} s"
        )


def ours(seed):
    return BayesPointClassifier(inference="billiard", random_state=seed, **FIXED)


def first_labels(y, rng):
    while True:
        labelled = rng.permutation(len(y))[:FIRST_LABELS].tolist()
        if len(np.unique(y[labelled])) == 2:
            return labelled


def asked_by_us(X, y, labelled, seed, strategy):
    labelled = list(labelled)
    while len(labelled) < ASKED:
        clf = ours(seed).fit(X[labelled], y[labelled])
        pool = np.setdiff1d(np.arange(len(y)), labelled)
        n = min(BATCH, ASKED - len(labelled))
        chosen = active.query(clf, X[pool], n, strategy=strategy, random_state=seed)
        labelled += pool[chosen].tolist()
    return labelled


def asked_by_uncertainty(X, y, labelled, seed, estimator):
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import UncertaintySampling
    from skactiveml.utils import MISSING_LABEL

    known = np.full(len(y), MISSING_LABEL, dtype=float)
    known[labelled] = y[labelled]
    clf = SklearnClassifier(estimator, classes=[-1, 1])
    strategy = UncertaintySampling(method="entropy", random_state=seed)
    while np.count_nonzero(~np.isnan(known)) < ASKED:
        n = min(BATCH, ASKED - np.count_nonzero(~np.isnan(known)))
        chosen = strategy.query(X, known, clf, batch_size=n)
        known[chosen] = y[chosen]
    return np.flatnonzero(~np.isnan(known))


def active_learning(runs):
    runs = runs or 20
    X, y = usps(3, 5)
    X_test, y_test = usps(3, 5, test=True)
    errors: dict = {}
    for run in range(runs):
        rng = np.random.default_rng(run)
        first = first_labels(y, rng)
        others = rng.permutation(np.setdiff1d(np.arange(len(y)), first))
        svc = SVC(probability=True, random_state=run)
        choices = {
            f"{RANDOM} random": first + others[: RANDOM - FIRST_LABELS].tolist(),
            f"{ASKED} random": first + others[: ASKED - FIRST_LABELS].tolist(),
            f"{ASKED} by entropy": asked_by_us(X, y, first, run, "entropy"),
            f"{ASKED} by BALD": asked_by_us(X, y, first, run, "bald"),
            f"{ASKED} by uncertainty, ours": asked_by_uncertainty(X, y, first, run, ours(run)),
            f"{ASKED} by uncertainty, SVC": asked_by_uncertainty(X, y, first, run, svc),
        }
        for name, labelled in choices.items():
            for model, clf in (("ours", ours(run)), ("SVC", SVC())):
                wrong = np.mean(clf.fit(X[labelled], y[labelled]).predict(X_test) != y_test)
                errors.setdefault((name, model), []).append(wrong)
    print(
        f"USPS 3 and 5, {len(y)} in the pool, {len(y_test)} test digits, {runs} runs, batches of "
        f"{BATCH}"
    )
    print(f"{'labels':28}{'model':>6}{'test error':>18}{'less 200 random, ours':>24}")
    base = np.array(errors[f"{RANDOM} random", "ours"])
    for (name, model), wrong in errors.items():
        wrong = np.array(wrong)
        paired = wrong - base
        print(
            f"{name:28}{model:>6}{100 * wrong.mean():10.2f} ± {100 * stderr(wrong):.2f} %"
            f"{100 * paired.mean():+14.2f} ± {100 * stderr(paired):.2f}"
        )


PARTS = {"gibbs": gibbs, "labels": labels, "active": active_learning}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--runs", type=int)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in arguments.part:
        begun = time.perf_counter()
        PARTS[part](arguments.runs)
        print(f"[{part}: {time.perf_counter() - begun:.0f} s]\n", flush=True)


if __name__ == "__main__":
    main()
