"""From the options of training to a classifier."""

from collections.abc import Mapping

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.cli.fitted import Classifier
from bayespoint.cli.options import Settings
from bayespoint.cli.output import UsageError, in_options
from bayespoint.estimators.parameters import check_parameters
from bayespoint.io.tables import TableError, counted, printable

# Folds whose held-out rows set the threshold of rejection, as RejectingClassifier has them.
FOLDS = 5


def make_classifier(settings: Settings, *, verbose: int = 0) -> Classifier:
    """Classifier of some settings, not fitted; a UsageError for values that it does not take.

    With a reject option it is fitted once on all rows and once a fold, and each fit gets an equal
    share of ``max_time``.

    Parameters
    ----------
    settings : Settings
    verbose : int, default=0
        Of the classifier.

    Returns
    -------
    BayesPointClassifier or RejectingClassifier
    """
    if settings.coverage is not None and settings.max_risk is not None:
        raise UsageError("give --coverage or --max-risk, not both: each alone sets the threshold.")
    max_time = settings.max_time
    if max_time is not None and settings.rejects:
        max_time /= FOLDS + 1
    classifier = BayesPointClassifier(
        inference=str(settings.inference), n_draws=settings.n_draws, max_time=max_time,
        label_noise=_label_noise(settings.label_noise), device=settings.device,
        n_jobs=settings.n_jobs, random_state=settings.seed, verbose=verbose,
    )  # fmt: skip
    try:
        check_parameters(classifier.get_params(deep=False))
    except ValueError as error:
        raise UsageError(in_options(error)) from None
    if not settings.rejects:
        return classifier
    return RejectingClassifier(
        classifier, coverage=settings.coverage, max_risk=settings.max_risk,
        delta=settings.delta_or_usual, cv=FOLDS,
    )  # fmt: skip


def check_folds(counts: Mapping[str, int], settings: Settings) -> None:
    """Raise a TableError where a class has too few rows for the folds of the rejection."""
    few = [name for name, count in counts.items() if count < FOLDS]
    if settings.rejects and few:
        raise TableError(
            f"class '{printable(few[0])}' has {counted(counts[few[0]], 'row')}; --coverage and "
            f"--max-risk need {FOLDS} of each class, to hold some out. Train without, or add rows."
        )


def _label_noise(text: str) -> float | str:
    if text == "evidence":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--label-noise must be a rate from 0 to 0.5, or evidence; got '{printable(text)}'."
        ) from None
