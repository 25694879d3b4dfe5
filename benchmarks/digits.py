"""Error on scikit-learn's digits, beside SVC: python benchmarks/digits.py.

Each row: the error in percent over 5 shuffled 5-fold cross-validations, as the mean over seeds and
its standard error, and the error over 5 folds that are not shuffled. The second is higher: images
next to each other seem to come from one hand, so shuffling puts every hand into the training set.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier

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


def main():
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


if __name__ == "__main__":
    main()
