"""Error on scikit-learn's digits, beside SVC.

    python benchmarks/digits.py --part errors | surest

errors: error in percent over 5 shuffled 5-fold cross-validations, as the mean over seeds and its
standard error, and the error over 5 folds that are not shuffled. The second is higher: images next
to each other seem to come from one hand, so shuffling puts every hand into the training set.

surest: what ``bayespoint demo`` shows of one split, as means over splits, beside a tuned SVC with
each way that scikit-learn has to make probabilities of it: log-loss, and the error in percent of
all images and of the surest shares.
"""

import argparse
import warnings

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier
from bayespoint.cli.demo import GRID, LABELLED

FOLDS = 5
SEEDS = range(5)
MODELS = {
    "BayesPointClassifier()": BayesPointClassifier(random_state=0),
    "BayesPointClassifier(gamma=0.001)": BayesPointClassifier(gamma=0.001, random_state=0),
    "SVC()": SVC(),
    "SVC(gamma=0.001)": SVC(gamma=0.001),
}


def error_percent(model, folds, X, y):
    return 100 * (1 - cross_val_score(model, X, y, cv=folds).mean())


def errors():
    X, y = load_digits(return_X_y=True)
    print(f"error in %, {FOLDS}-fold, shuffled: mean over {len(SEEDS)} seeds and standard error")
    print(f"{'':42}{'shuffled':>15}{'in order':>10}")
    for name, model in MODELS.items():
        shuffled = [
            error_percent(model, StratifiedKFold(FOLDS, shuffle=True, random_state=seed), X, y)
            for seed in SEEDS
        ]
        stderr = np.std(shuffled, ddof=1) / np.sqrt(len(shuffled))
        in_order = error_percent(model, StratifiedKFold(FOLDS), X, y)
        print(f"{name:42}{np.mean(shuffled):8.2f} ± {stderr:4.2f}{in_order:10.2f}", flush=True)


SHARES = (1.0, 0.95, 0.9, 0.8)


def with_probabilities(svc, seed):
    """Ours, and an SVC with the settings of ``svc`` and probabilities of all kinds."""
    ways = {
        f"SVC, {method}, {'five of them' if ensemble else 'one'}": CalibratedClassifierCV(
            svc, method=method, ensemble=ensemble
        )
        for method in ("temperature", "sigmoid")
        for ensemble in (True, False)
    }
    own = SVC(probability=True, random_state=seed, C=svc.C, gamma=svc.gamma)
    return {
        "BayesPointClassifier()": BayesPointClassifier(random_state=seed), **ways,
        "SVC(probability=True)": own,
    }  # fmt: skip


def figures(model, X, y, others, truth):
    proba = model.fit(X, y).predict_proba(others)
    wrong = model.classes_[proba.argmax(axis=1)] != truth
    order = np.argsort(-proba.max(axis=1), kind="stable")
    shares = [100 * wrong[order[: round(share * len(order))]].mean() for share in SHARES]
    return [log_loss(truth, proba), *shares]


def surest():
    warnings.simplefilter("ignore", FutureWarning)  # SVC(probability=True) will go
    images, labels = load_digits(return_X_y=True)
    found = {}
    for seed in SEEDS:
        X, others, y, truth = train_test_split(
            images, labels, train_size=LABELLED, stratify=labels, random_state=seed
        )
        tuned = GridSearchCV(SVC(), GRID).fit(X, y).best_estimator_
        for name, model in with_probabilities(tuned, seed).items():
            found.setdefault(name, []).append(figures(model, X, y, others, truth))
    print(f"{LABELLED} digits learned, {len(truth):,} asked, means of {len(SEEDS)} splits:")
    print(f"{'':30}{'log-loss':>10}" + "".join(f"{f'{share:.0%}':>8}" for share in SHARES))
    for name, rows in found.items():
        loss, *shares = np.mean(rows, axis=0)
        print(f"{name:30}{loss:10.3f}" + "".join(f"{share:8.2f}" for share in shares))


PARTS = {"errors": errors, "surest": surest}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, default="errors")
    PARTS[parser.parse_args().part]()
