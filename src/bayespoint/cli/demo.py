"""``bayespoint demo``: digits, beside SVC, with a reject option and a picture."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

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
from bayespoint._support.types import Array
from bayespoint.cli.output import BAD_USAGE
from bayespoint.estimators.confidence import confidence_of

FOLDS = 5
REJECTED = np.arange(0, 11) / 100

# The width of scikit-learn's own digits example; perceptrons of ten classes need no bias.
GAMMA, BIAS = 0.001, 0.0


class HeldOut(NamedTuple):
    """Held-out predictions of one classifier, with their confidence."""

    name: str
    predicted: Array
    confidence: Array
    second: Array
    seconds: float

    def doubtful(self, n: int) -> Array:
        """Numbers of the least confident cases, least confident first."""
        return np.argsort(self.confidence, kind="stable")[:n]

    def error(self, y: Array, rejected: float = 0.0) -> float:
        """Error of what is left after rejecting a share of least confident cases."""
        left = np.argsort(-self.confidence, kind="stable")[: round((1 - rejected) * len(y))]
        return float(np.mean(self.predicted[left] != y[left]))


def run_demo(output_path: Path, seed: int = 0) -> None:
    """Print errors and the rejection table and write the picture."""
    console = Console()
    if not output_path.parent.is_dir():
        _fail(output_path, f"there is no folder {output_path.parent}")
    X, y = load_digits(return_X_y=True)
    console.print(
        f"scikit-learn's digits: {len(X):,} images, 10 classes, {FOLDS}-fold cross-validation "
        f"(seed {seed})",
        soft_wrap=True,
    )
    # Each with the confidence that serves it best: of SVC's votes of pairs the largest output.
    models = {
        "BayesPointClassifier": (
            BayesPointClassifier(gamma=GAMMA, bias=BIAS, random_state=seed), "gap",
        ),
        "SVC()": (SVC(), "output"),
        "SVC, same gamma": (SVC(gamma=GAMMA), "output"),
        "SVC, one vs rest": (OneVsRestClassifier(SVC(gamma=GAMMA)), "gap"),
    }  # fmt: skip
    console.print(
        f"BayesPointClassifier(gamma={GAMMA}, bias={BIAS:g}), rejecting by the gap of the best two "
        f"outputs; SVC by its largest output, one against the rest with the same gamma by the gap",
        soft_wrap=True,
    )
    with console.status("training"):
        results = [_hold_out(name, *model, X, y, seed) for name, model in models.items()]
    console.print(_table(results, y))
    ours = results[0]
    _draw(results, X, y, output_path)
    n_rejected = round(0.05 * len(y))
    doubtful = ours.doubtful(n_rejected)
    n_wrong = int(np.sum(ours.predicted != y))
    caught = int(np.sum(ours.predicted[doubtful] != y[doubtful]))
    console.print(
        f"Rejecting the {n_rejected} most doubtful images catches {caught} of the {n_wrong} errors."
    )
    console.print(f"Picture: {output_path}", soft_wrap=True)


def _fail(output_path: Path, why: object) -> NoReturn:
    typer.echo(f"cannot write --output {output_path}: {why}", err=True)
    raise typer.Exit(BAD_USAGE) from None


def _hold_out(name: str, model: Any, rule: str, X: Array, y: Array, seed: int) -> HeldOut:
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
    return HeldOut(name, predicted, confidence, second, time.perf_counter() - start)


def _table(results: Sequence[HeldOut], y: Array) -> Table:
    table = Table(title="Error (%) among the digits decided")
    table.add_column("rejected", justify="right")
    for result in results:
        table.add_column(result.name, justify="right")
    for share in REJECTED:
        errors = (f"{100 * result.error(y, share):.2f}" for result in results)
        table.add_row(f"{share:.0%}", *errors)
    table.add_section()
    table.add_row("seconds", *(f"{result.seconds:.1f}" for result in results))
    return table


def _draw(results: Sequence[HeldOut], X: Array, y: Array, output_path: Path) -> None:
    matplotlib.use("Agg")
    figure = plt.figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.15])  # type: ignore[misc]
    axes = left.subplots()
    for result in (results[0], results[1], results[3]):
        RiskCoverageDisplay.from_predictions(
            y, result.predicted, result.confidence, ax=axes, name=result.name
        )
    axes.set_xlim(0.9, 1.0)
    axes.set_xticks(np.linspace(0.9, 1.0, 6))
    axes.set_ylim(0.0, 1.25 * max(result.error(y) for result in results))
    axes.legend(loc="upper left", fontsize=10)
    left.suptitle("Errors vanish when the doubtful digits are left undecided")
    _draw_doubtful(right, results[0], X, y)
    try:
        figure.savefig(output_path, dpi=150)
    except (OSError, ValueError) as error:
        _fail(output_path, error)
    finally:
        plt.close(figure)


def _draw_doubtful(figure: Any, ours: HeldOut, X: Array, y: Array) -> None:
    figure.suptitle("The digits it would rather not decide")
    for axes, i in zip(figure.subplots(4, 6).ravel(), ours.doubtful(24), strict=True):
        axes.imshow(X[i].reshape(8, 8), cmap="gray_r")
        axes.set_xticks([])
        axes.set_yticks([])
        wrong = ours.predicted[i] != y[i]
        text = f"{ours.predicted[i]} or {ours.second[i]}?" + (f" ({y[i]})" if wrong else "")
        axes.set_title(text, fontsize=11, color="#D55E00" if wrong else "black")
    figure.supxlabel("first and second choice; orange: first choice wrong, truth in brackets")
