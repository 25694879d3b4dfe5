"""Which columns matter: computed after training where that takes little, kept in the model."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from bayespoint.cli.fitted import Base, Classifier, base_of
from bayespoint.cli.output import Output
from bayespoint.estimators.importances import Importances, Ranked, ranked, work_of
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.tables import printable
from bayespoint.io.tables.table import and_more, numbered_names

# Seconds that may be spent without being asked, and the share of the time of training.
MOST_SECONDS, MOST_SHARE = 5.0, 0.25
# Operations a second, as measured on two cores.
SPEED = 6e9

# Columns that train lists, and characters of a name.
SHOWN_COLUMNS, SHOWN_NAME = 10, 40


def compute_importances(
    classifier: Classifier, output: Output, wanted: bool | None, n_rows: int, seconds: float
) -> str:
    """Have the classifier compute its importances, unless that takes long.

    Parameters
    ----------
    classifier : BayesPointClassifier or RejectingClassifier
        Just fitted.
    output : Output
    wanted : bool or None
        Whether it was asked for; None: if it takes little.
    n_rows : int
        Of the training data.
    seconds : float
        Time of training.

    Returns
    -------
    str
        What to say if it was left out without being asked to; empty if not.
    """
    base = base_of(classifier)
    if wanted is None:
        n_classes = len(base.classes_)
        n_groups = len(set(base.feature_groups or range(base.n_features_in_)))
        needed = work_of(n_rows, n_groups, 1 if n_classes == 2 else n_classes) / SPEED
        long, limited = needed > max(MOST_SECONDS, MOST_SHARE * seconds), base.max_time is not None
        if long or limited:
            reason = "time is limited" if limited else f"it takes about {needed:,.0f} s"
            return f"Which columns matter is left out, as {reason}: --importances computes it."
    if wanted is False:
        return ""
    try:
        with output.noting_warnings(), output.progress("which columns matter"):
            _ = base.feature_importances_
    except KeyboardInterrupt:
        output.note("which columns matter is left out, as Ctrl-C ended it; the model is whole.")
    return ""


def columns_by_importance(classifier: Classifier, encoder: TableEncoder | None) -> list[Ranked]:
    """Columns of the data, the most important first; none where the model does not know."""
    base = base_of(classifier)
    found: Importances | None = base.trained_.importances
    if found is None:
        return []
    return ranked(found, _names(base, encoder), base.feature_groups)


def columns_by_width(classifier: Classifier, encoder: TableEncoder | None) -> list[Ranked]:
    """Columns by their share of the distance between two rows; none without widths of their own.

    The kernel sees rows by this distance alone, so that a column with a small share hardly counts.
    """
    base = base_of(classifier)
    width, points = base.gamma_, base.support_vectors_
    if np.ndim(width) == 0 or base.kernel_ not in ("rbf", "laplacian") or sp.issparse(points):
        return []
    apart = points - points.mean(axis=0)
    distance = apart**2 if base.kernel_ == "rbf" else abs(apart)
    part = width * distance.mean(axis=0)
    share = part / max(part.sum(), np.finfo(float).tiny)
    groups = range(len(share)) if base.feature_groups is None else base.feature_groups
    _, group = np.unique([str(label) for label in groups], return_inverse=True)
    together = np.bincount(group, weights=share)[group]
    found = Importances(together, np.zeros(len(share)))
    return ranked(found, _names(base, encoder), base.feature_groups)


def _names(base: Base, encoder: TableEncoder | None) -> Sequence[str]:
    if encoder is not None:
        return encoder.feature_names_
    return getattr(base, "feature_names_in_", numbered_names(base.n_features_in_))


def say_importances(output: Output, columns: Sequence[Ranked], left_out: str = "") -> None:
    """Print the most important columns as a table, or that they were left out, or nothing."""
    if left_out:
        output.say(left_out)
    if not columns:
        return
    output.say("Columns that matter most (log-probability that a label loses without them, nats):")
    shown = [printable(column.name, SHOWN_NAME) for column in columns[:SHOWN_COLUMNS]]
    width = max(map(len, shown))
    for name, column in zip(shown, columns, strict=False):
        output.say(f"  {name:<{width}} {column.mean:>z8.4f} ± {column.error:.4f}")
    if len(columns) > SHOWN_COLUMNS:
        output.say(f" {and_more(len(columns) - SHOWN_COLUMNS)}")
