"""From the options of training to a classifier."""

from collections.abc import Mapping, Sequence

import numpy as np

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.cli.fitted import Classifier
from bayespoint.cli.options import CACHE_SIZE, Settings
from bayespoint.cli.output import UsageError, in_options
from bayespoint.cli.wanted import limits_of, numbers_by_class, read_costs
from bayespoint.estimators.calibration import FOLDS as LEAST_DRAWS
from bayespoint.estimators.held_out import AUTO_FOLDS
from bayespoint.estimators.parameters import check_parameters
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.tables import TableError, counted, printable

# Kernels of data in columns.
KERNELS = ("auto", "rbf", "laplacian", "linear", "poly")
BALANCED = "balanced"


def make_classifier(settings: Settings, *, verbose: int = 0) -> Classifier:
    """Classifier of some settings, not fitted; a UsageError for values that it does not take.

    With a reject option, where that may take folds (see `may_use_folds`), half of ``max_time`` is
    for the fit on all rows and half for the folds.

    Parameters
    ----------
    settings : Settings
    verbose : int, default=0
        Of the classifier.

    Returns
    -------
    BayesPointClassifier or RejectingClassifier
    """
    _check_one_way(settings)
    classifier = BayesPointClassifier(
        inference=str(settings.inference), n_draws=settings.n_draws, max_time=settings.max_time,
        label_noise=_number_or("--label-noise", settings.label_noise, "evidence"),
        kernel=_choice("--kernel", settings.kernel, KERNELS), device=settings.device,
        gamma=_number_or("--gamma", settings.gamma, "held-out", "evidence", "scale", "ard"),
        softness=_number_or("--softness", settings.softness, "held-out", "evidence"),
        class_weight=_class_weight(settings.class_weight),
        cache_size=settings.cache_size or CACHE_SIZE, half_life=settings.half_life,
        n_jobs=settings.n_jobs, random_state=settings.seed, verbose=verbose,
    )  # fmt: skip
    try:
        check_parameters(classifier.get_params(deep=False))
    except ValueError as error:
        raise UsageError(in_options(error)) from None
    if not settings.rejects:
        return classifier
    rejecting = RejectingClassifier(
        classifier, coverage=settings.coverage, max_risk=settings.max_risk,
        costs=None if settings.costs is None else read_costs(settings.costs),
        min_precision=limits_of("--min-precision", settings.min_precision),
        min_recall=limits_of("--min-recall", settings.min_recall),
        delta=settings.delta_or_usual, cv="auto",
    )  # fmt: skip
    if settings.max_time is not None:
        classifier.max_time = settings.max_time / (2 if may_use_folds(rejecting) else 1)
    return rejecting


def _check_one_way(settings: Settings) -> None:
    ways = {
        "--coverage": settings.coverage, "--max-risk": settings.max_risk, "--costs": settings.costs,
        "--min-precision or --min-recall": settings.min_precision or settings.min_recall,
    }  # fmt: skip
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"give {given[0]} or {given[1]}, not both: each alone sets the threshold.")


def set_groups(classifier: Classifier, encoder: TableEncoder) -> None:
    """Give features that come from one column of the data one width.

    Parameters
    ----------
    classifier : BayesPointClassifier or RejectingClassifier
        From `make_classifier`.
    encoder : TableEncoder
        Fitted.
    """
    base = classifier.estimator if isinstance(classifier, RejectingClassifier) else classifier
    groups = encoder.feature_groups_
    base.feature_groups = groups if len(set(groups)) < len(groups) else None


def may_use_folds(classifier: Classifier) -> bool:
    """Whether the threshold of rejection may take fits on folds.

    It takes none where one fit tells what it says of each row without it: EP does, and so do
    perceptrons with a draw for each part of the rows that they leave out. What "auto" will be is
    known once the rows are: with few draws or label noise it may be a method that does not.

    Parameters
    ----------
    classifier : BayesPointClassifier or RejectingClassifier
        From `make_classifier`.

    Returns
    -------
    bool
    """
    if not isinstance(classifier, RejectingClassifier) or classifier.costs is not None:
        return False
    base = classifier.estimator
    if base.inference == "ep":
        return False
    tells = base.inference == "perceptron" or (
        base.inference == "auto" and base.label_noise == 0  # else the billiard, for many points
    )
    return not tells or base.n_draws < LEAST_DRAWS


def most_fits(classifier: Classifier) -> int:
    """How many fits it may take to train a classifier of `make_classifier`."""
    return AUTO_FOLDS + 1 if may_use_folds(classifier) else 1


def check_folds(counts: Mapping[str, int], classifier: Classifier) -> None:
    """Raise a TableError where a class has too few rows for folds that rejection may take."""
    few = [name for name, count in counts.items() if count < AUTO_FOLDS]
    if few and may_use_folds(classifier):
        raise TableError(
            f"class '{printable(few[0])}' has {counted(counts[few[0]], 'row')}; --coverage, "
            f"--max-risk and limits need {AUTO_FOLDS} of each class here, to hold some out. Use "
            f"--inference ep, train without, or add rows."
        )


def check_names(counts: Mapping[str, int], classifier: Classifier) -> None:
    """Raise a UsageError where costs or limits name other classes than the data have."""
    if not isinstance(classifier, RejectingClassifier):
        return
    try:
        classifier.check_with(np.array(list(counts)))
    except ValueError as error:
        raise UsageError(in_options(error)) from None


def check_chunked(settings: Settings) -> None:
    """Raise a UsageError for settings with which no classifier goes on from chunk to chunk."""
    if settings.rejects:
        raise UsageError(
            "--chunk-rows does not work with --coverage and --max-risk, limits or --costs: what "
            "they need is found with all rows at once."
        )
    if settings.inference not in ("auto", "ep"):
        raise UsageError(
            f"--chunk-rows learns one chunk after the other, which --inference "
            f"{settings.inference} cannot: use --inference ep."
        )


def _number_or(option: str, text: str, *words: str) -> float | str:
    """Value of an option that takes a number, or one of some words."""
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"{option} must be a number, or {' or '.join(words)}; got '{printable(text)}'."
        ) from None


def _choice(option: str, text: str, choices: Sequence[str]) -> str:
    if text not in choices:
        raise UsageError(f"{option} must be {', '.join(choices)}; got '{printable(text)}'.")
    return text


def _class_weight(texts: Sequence[str] | None) -> dict[str, float] | str | None:
    """Weights of classes, by name or balanced."""
    if not texts:
        return None
    if list(texts) == [BALANCED]:
        return BALANCED
    return numbers_by_class("--class-weight", texts, f"a weight, as yes=2, or it is {BALANCED}")
