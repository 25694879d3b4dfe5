"""Columns that alone decide the label, as columns do that were filled in once it was known."""

import shlex

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from bayespoint._support.types import Array
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.encoder.kinds import feature_names
from bayespoint.io.tables import printable

# Errors that a column alone may leave, of those of the most frequent class; and how many of these
# there must be among the rows left out for that to say something.
LEFT, LEAST_ERRORS = 0.02, 10

# Rows that are asked at most, and columns: with many of them one may do so by chance.
ASKED_ROWS, MOST_COLUMNS = 4000, 1000

# Leaves of the tree of a column: more than the values that a column of text may have by default.
LEAVES = 64


def notes_on_leaks(X: Array, labels: Array, encoder: TableEncoder) -> list[str]:
    """Notes on columns that alone tell the labels of rows left out.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Encoded.
    labels : ndarray of shape (n_rows,)
    encoder : TableEncoder

    Returns
    -------
    list of str
    """
    if len(encoder.columns_) > MOST_COLUMNS:
        return []
    rows = np.random.default_rng(0).permutation(len(labels))[:ASKED_ROWS]
    some, others = rows[::2], rows[1::2]
    values, counts = np.unique(labels[some], return_counts=True)
    usual = int(np.sum(labels[others] != values[counts.argmax()]))
    if usual < LEAST_ERRORS:
        return []
    notes, start = [], 0
    for column in encoder.columns_:
        features = slice(start, start := start + len(feature_names(column)))
        tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, random_state=0)
        wrong = tree.fit(X[some, features], labels[some]).predict(X[others, features])
        n_wrong = int(np.sum(wrong != labels[others]))
        if n_wrong <= LEFT * usual:
            name = printable(column.name)
            notes.append(
                f"'{name}' alone tells the class of {1 - n_wrong / len(others):.1%} of rows left "
                f"out. If it is not known before the class is, it is a leak: --drop "
                f"{shlex.quote(name)} leaves it out."
            )
    return notes
