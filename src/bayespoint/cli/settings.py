"""Options that say what classifier is trained, for all commands that train one."""

from enum import StrEnum
from typing import NamedTuple

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.cli.output import UsageError, counted, in_options
from bayespoint.estimators.parameters import check_parameters
from bayespoint.io.tables import TableError, printable

# Folds whose held-out rows set the threshold of rejection, as RejectingClassifier has them.
FOLDS = 5


class Inference(StrEnum):
    """Values of --inference."""

    auto = "auto"
    ep = "ep"
    billiard = "billiard"
    perceptron = "perceptron"
    gibbs = "gibbs"


class Settings(NamedTuple):
    """Options of training."""

    coverage: float | None = None
    max_risk: float | None = None
    delta: float = 0.05
    max_time: float | None = None
    inference: str = "auto"
    device: str = "cpu"
    seed: int = 0
    n_jobs: int = -1
    n_draws: int = 100
    label_noise: str = "0"

    @property
    def rejects(self):
        """Whether a threshold of rejection is wanted."""
        return self.coverage is not None or self.max_risk is not None


def make_classifier(settings):
    """Classifier of some settings, not fitted; a UsageError for values that it does not take.

    With a reject option it is fitted once on all rows and once a fold, and each fit gets an equal
    share of ``max_time``.

    Parameters
    ----------
    settings : Settings

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
        label_noise=_rate(settings.label_noise), device=settings.device, n_jobs=settings.n_jobs,
        random_state=settings.seed, verbose=1,
    )  # fmt: skip
    try:
        check_parameters(classifier.get_params(deep=False))
    except ValueError as error:
        raise UsageError(in_options(printable(str(error), 400))) from None
    if not settings.rejects:
        return classifier
    return RejectingClassifier(
        classifier, coverage=settings.coverage, max_risk=settings.max_risk, delta=settings.delta,
        cv=FOLDS,
    )  # fmt: skip


def check_folds(counts, settings):
    """Raise a TableError where a class has too few rows for the folds of the rejection."""
    few = [name for name, count in counts.items() if count < FOLDS]
    if settings.rejects and few:
        raise TableError(
            f"class '{printable(few[0])}' has {counted(counts[few[0]], 'row')}; --coverage and "
            f"--max-risk need {FOLDS} of each class, to hold some out. Train without, or add rows."
        )


def _rate(text):
    if text == "evidence":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--label-noise must be a rate from 0 to 0.5, or evidence; got '{printable(text)}'."
        ) from None
