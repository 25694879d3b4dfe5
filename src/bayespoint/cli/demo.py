"""``bayespoint demo``: digits, beside SVC, with a reject option and a picture."""

import time
from typing import NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, RiskCoverageDisplay
from bayespoint.estimators.rejection import confidence_of

FOLDS = 5
REJECTED = np.arange(0, 11) / 100

# The width of scikit-learn's own digits example; perceptrons of ten classes need no bias.
OUR_SETTINGS = {"gamma": 0.001, "bias": 0.0}


class Held(NamedTuple):
    """Held-out predictions of one classifier, with their confidence."""

    name: str
    predicted: np.ndarray
    confidence: np.ndarray
    second: np.ndarray
    seconds: float

    def error(self, y, rejected=0.0):
        """Error of what is left after rejecting a share of least confident cases."""
        left = np.argsort(-self.confidence, kind="stable")[: round((1 - rejected) * len(y))]
        return float(np.mean(self.predicted[left] != y[left]))


def run_demo(output, seed=0):
    """Print errors and the rejection table and write the picture."""
    console = Console()
    if not output.parent.is_dir():
        typer.echo(f"cannot write --output {output}: there is no folder {output.parent}", err=True)
        raise typer.Exit(2)
    X, y = load_digits(return_X_y=True)
    console.print(
        f"scikit-learn's digits: {len(X):,} images, 10 classes, {FOLDS}-fold cross-validation "
        f"(seed {seed})",
        soft_wrap=True,
    )
    gamma = OUR_SETTINGS["gamma"]
    # Each with the confidence that serves it best: of SVC's votes of pairs the largest output.
    models = {
        "BayesPointClassifier": (BayesPointClassifier(random_state=seed, **OUR_SETTINGS), "gap"),
        "SVC()": (SVC(), "output"),
        "SVC, same gamma": (SVC(gamma=gamma), "output"),
        "SVC, one vs rest": (OneVsRestClassifier(SVC(gamma=gamma)), "gap"),
    }
    console.print(
        f"BayesPointClassifier(gamma={gamma}, bias=0), rejecting by the gap of the best two "
        f"outputs; SVC by its largest output, one against the rest with the same gamma by the gap",
        soft_wrap=True,
    )
    with console.status("training"):
        held = [_hold_out(name, *model, X, y, seed) for name, model in models.items()]
    console.print(_table(held, y))
    ours = held[0]
    _draw(held, X, y, output)
    n_rejected = round(0.05 * len(y))
    doubtful = np.argsort(ours.confidence, kind="stable")[:n_rejected]
    n_wrong = int(np.sum(ours.predicted != y))
    caught = int(np.sum(ours.predicted[doubtful] != y[doubtful]))
    console.print(
        f"Rejecting the {n_rejected} most doubtful images catches {caught} of the {n_wrong} errors."
    )
    console.print(f"Picture: {output}", soft_wrap=True)


def _hold_out(name, model, rule, X, y, seed):
    start = time.perf_counter()
    predicted, second = np.empty_like(y), np.empty_like(y)
    confidence = np.empty(len(y))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for train, test in folds.split(X, y):
        model.fit(X[train], y[train])
        outputs = model.decision_function(X[test])
        predicted[test] = model.predict(X[test])
        second[test] = model.classes_[np.argsort(outputs, axis=1)[:, -2]]
        confidence[test] = confidence_of(model, X[test], rule)
    return Held(name, predicted, confidence, second, time.perf_counter() - start)


def _table(held, y):
    table = Table(title="Error (%) among the digits decided")
    table.add_column("rejected", justify="right")
    for one in held:
        table.add_column(one.name, justify="right")
    for share in REJECTED:
        errors = (f"{100 * one.error(y, share):.2f}" for one in held)
        table.add_row(f"{share:.0%}", *errors)
    table.add_section()
    table.add_row("seconds", *(f"{one.seconds:.1f}" for one in held))
    return table


def _draw(held, X, y, output):
    matplotlib.use("Agg")
    figure = plt.figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.15])  # type: ignore[misc]
    axes = left.subplots()
    for one in (held[0], held[1], held[3]):
        RiskCoverageDisplay.from_predictions(
            y, one.predicted, one.confidence, ax=axes, name=one.name
        )
    axes.set_xlim(0.9, 1.0)
    axes.set_xticks(np.linspace(0.9, 1.0, 6))
    axes.set_ylim(0.0, 1.25 * max(one.error(y) for one in held))
    axes.legend(loc="upper left", fontsize=10)
    left.suptitle("Errors vanish when the doubtful digits are left undecided")
    _draw_doubtful(right, held[0], X, y)
    try:
        figure.savefig(output, dpi=150)
    except (OSError, ValueError) as error:
        typer.echo(f"cannot write --output {output}: {error}", err=True)
        raise typer.Exit(2) from None
    finally:
        plt.close(figure)


def _draw_doubtful(figure, ours, X, y):
    figure.suptitle("The digits it would rather not decide")
    doubtful = np.argsort(ours.confidence, kind="stable")[:24]
    for axes, i in zip(figure.subplots(4, 6).ravel(), doubtful, strict=True):
        axes.imshow(X[i].reshape(8, 8), cmap="gray_r")
        axes.set_xticks([])
        axes.set_yticks([])
        wrong = ours.predicted[i] != y[i]
        text = f"{ours.predicted[i]} or {ours.second[i]}?" + (f" ({y[i]})" if wrong else "")
        axes.set_title(text, fontsize=11, color="#D55E00" if wrong else "black")
    figure.supxlabel("first and second choice; orange: first choice wrong, truth in brackets")
