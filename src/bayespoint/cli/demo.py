"""``bayespoint demo``: digits of which few have labels, beside other classifiers, and a picture."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import sklearn
import typer
from rich.console import Console
from rich.table import Table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier
from bayespoint._support.types import Array
from bayespoint.cli.output import BAD_USAGE

# Images with a label; all others are asked.
LABELLED = 300

# Shares of images decided, the surest ones, whose errors are printed.
DECIDED = (1.0, 0.95, 0.9, 0.8)

# What SVC is tuned over, around scikit-learn's own digits example (gamma=0.001).
GRID = {"C": [1.0, 10.0, 100.0], "gamma": [0.0003, 0.001, 0.003]}

# Trees of the forest.
TREES = 500

# Share of images decided where the picture begins.
LEAST_DECIDED = 0.8

# Colours that people who do not see some can tell apart (Okabe and Ito), and lines.
STYLES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"))


class Answers(NamedTuple):
    """What a classifier says of images that it has not seen."""

    name: str
    classes: Array
    proba: Array
    seconds: float

    @property
    def predicted(self) -> Array:
        """The most probable label of each."""
        return self.classes[self.proba.argmax(axis=1)]

    @property
    def second(self) -> Array:
        """The next label of each."""
        return self.classes[np.argsort(self.proba, axis=1)[:, -2]]

    def log_loss(self, y: Array) -> float:
        """Mean of minus the logarithm of the probability of the true label."""
        return float(log_loss(y, self.proba, labels=self.classes))

    def surest(self, share: float = 1.0) -> Array:
        """Numbers of a share of the cases, the surest first."""
        order = np.argsort(-self.proba.max(axis=1), kind="stable")
        return order[: round(share * len(order))]

    def error(self, y: Array, share: float = 1.0) -> float:
        """Error of the surest cases."""
        decided = self.surest(share)
        return float(np.mean(self.predicted[decided] != y[decided]))


def run_demo(output_path: Path, seed: int = 0) -> None:
    """Train on few digits, print what is said of all others, and draw it."""
    console = Console()
    if not output_path.parent.is_dir():
        _fail(output_path, f"there is no folder {output_path.parent}")
    images, labels = load_digits(return_X_y=True)
    X, others, y, truth = train_test_split(
        images, labels, train_size=LABELLED, stratify=labels, random_state=seed
    )
    console.print(
        f"scikit-learn's digits: {len(X)} images with labels to learn from, {len(others):,} others "
        f"to tell (seed {seed}).",
        soft_wrap=True,
    )
    with console.status("training"):
        answers = [_answers(name, m, X, y, others) for name, m in _models(seed).items()]
    console.print(_table(answers, truth))
    ours = answers[0]
    wrong = ours.predicted != truth
    doubtful = ours.surest()[::-1][: round(0.1 * len(truth))]
    console.print(
        f"The surest are those with the largest probability, by the same rule for all. The tenth "
        f"that bayespoint doubts most has {wrong[doubtful].sum()} of its {wrong.sum()} "
        f"errors.",
        soft_wrap=True,
    )
    _draw(answers, others, truth, output_path)
    console.print(f"Picture: {output_path}", soft_wrap=True)


def _fail(output_path: Path, why: object) -> NoReturn:
    typer.echo(f"cannot write --output {output_path}: {why}", err=True)
    raise typer.Exit(BAD_USAGE) from None


def _models(seed: int) -> Mapping[str, Any]:
    """Ours as it is; SVC with a grid search, and its probabilities calibrated; others."""
    newer = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
    method = "temperature" if newer else "sigmoid"  # which is better, and was not there before
    return {
        "bayespoint": BayesPointClassifier(n_jobs=-1, random_state=seed),
        "tuned SVC": CalibratedClassifierCV(GridSearchCV(SVC(), GRID), method=method),
        "tuned logistic": GridSearchCV(
            make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=1000)),
            {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]}, scoring="neg_log_loss",
        ),
        "forest": RandomForestClassifier(TREES, n_jobs=-1, random_state=seed),
    }  # fmt: skip


def _answers(name: str, model: Any, X: Array, y: Array, others: Array) -> Answers:
    start = time.perf_counter()
    proba = model.fit(X, y).predict_proba(others)
    return Answers(name, model.classes_, proba, time.perf_counter() - start)


def _table(answers: Sequence[Answers], y: Array) -> Table:
    table = Table(title=f"{len(y):,} images that were not learned")
    table.add_column("")
    for one in answers:
        table.add_column(one.name, justify="right")
    table.add_row("log-loss", *(f"{one.log_loss(y):.3f}" for one in answers))
    for share in DECIDED:
        which = "" if share == 1 else f", surest {share:.0%}"
        errors = (f"{100 * one.error(y, share):.2f}" for one in answers)
        table.add_row(f"error (%){which}", *errors)
    table.add_row("seconds", *(f"{a.seconds:.1f}" for a in answers))
    return table


def _draw(answers: Sequence[Answers], X: Array, y: Array, output_path: Path) -> None:
    matplotlib.use("Agg")
    figure = plt.figure(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.15])  # type: ignore[misc]
    _draw_errors(left, answers, y)
    _draw_doubtful(right, answers[0], X, y)
    try:
        figure.savefig(output_path, dpi=150)
    except (OSError, ValueError) as error:
        _fail(output_path, error)
    finally:
        plt.close(figure)


def _draw_errors(figure: Any, answers: Sequence[Answers], y: Array) -> None:
    """Error against the share of images decided, the surest first."""
    axes, shares = figure.subplots(), np.linspace(LEAST_DECIDED, 1.0, 101)
    for one, (colour, line) in zip(answers, STYLES, strict=True):
        axes.plot(
            100 * shares, [100 * one.error(y, share) for share in shares], color=colour, ls=line,
            lw=2.5, label=f"{one.name} (log-loss {one.log_loss(y):.2f})",
        )  # fmt: skip
    axes.set(xlim=(100 * LEAST_DECIDED, 100), ylim=(0, None))
    axes.set_xlabel("images decided (%), the surest first", fontsize=12)
    axes.set_ylabel("error among these (%)", fontsize=12)
    axes.legend(loc="upper left", fontsize=11)
    figure.suptitle("Few errors are left among those it is sure of", fontsize=14)


def _draw_doubtful(figure: Any, ours: Answers, X: Array, y: Array) -> None:
    figure.suptitle("The images it would rather not decide", fontsize=14)
    doubtful, predicted, second = ours.surest()[::-1], ours.predicted, ours.second
    for axes, i in zip(figure.subplots(4, 6).ravel(), doubtful, strict=False):
        axes.imshow(X[i].reshape(8, 8), cmap="gray_r")
        axes.set_xticks([])
        axes.set_yticks([])
        wrong = predicted[i] != y[i]
        text = f"{predicted[i]} or {second[i]}?" + (f" ({y[i]})" if wrong else "")
        axes.set_title(text, fontsize=11, color="#D55E00" if wrong else "black")
    figure.supxlabel("first and second choice; orange: first choice wrong, truth in brackets")
