"""What a link says of a row that it has not seen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint.space.links import VOTES_USUAL, fit_link, fit_links, votes_of


def ones(label):
    return np.ones(len(label))


@pytest.mark.parametrize(("n_classes", "noise", "most_copies"), [(3, 0.0, 1), (4, 0.05, 3)])
def test_what_a_link_says_of_a_row_that_it_has_not_seen(n_classes, noise, most_copies):
    """Beside a fit without a copy of it; controls: the link that saw it, and links without more."""
    rng = np.random.default_rng(11)
    label = rng.integers(n_classes, size=90)
    mix = np.eye(n_classes) + 0.3 * rng.normal(size=(n_classes, n_classes))
    outputs = (0.7 * rng.normal(size=(90, n_classes)) + np.eye(n_classes)[label]) @ mix
    weight = rng.integers(1, most_copies + 1, size=90).astype(float)
    how = {"noise": noise, "usual": VOTES_USUAL}
    found = fit_links(outputs, label, weight, **how)
    assert_allclose(found.link.weights, fit_link(outputs, label, weight, **how).weights)
    seen, told, refitted, fewer = [], [], [], []
    for i in range(90):
        score = [
            votes_of(link.scores(outputs[i]), n_classes)[label[i]]
            for link in (
                found.link,
                found.without[found.fold[i]],
                fit_link(*without(i, outputs, label, weight), **how),
                fit_link(*without(slice(i % 5, None, 5), outputs, label, weight), **how),
            )
        ]
        for scores, one in zip((seen, told, refitted, fewer), score, strict=True):
            scores.append(np.log(one))
    apart = [np.abs(np.subtract(scores, refitted)).mean() for scores in (told, seen, fewer)]
    assert apart[0] < 0.2 * apart[1]
    assert apart[0] < 0.2 * apart[2]


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_what_a_link_says_of_a_row_where_outputs_of_others_come_from_fits_with_it(noise):
    """Beside a fit to the outputs that others have without the row; control: told of no moves."""
    rng = np.random.default_rng(11)
    n, label = 90, rng.integers(3, size=90)
    outputs = 0.7 * rng.normal(size=(n, 3)) + np.eye(3)[label]
    outputs = outputs @ (np.eye(3) + 0.3 * rng.normal(size=(3, 3)))
    # Without a row outputs of others fall for its class, and rise for the other ones.
    moves = -0.1 * rng.random((3, n, n)) * (2.0 * np.eye(3)[label].T - 1)[:, :, None]
    moves[:, np.arange(n), np.arange(n)] = 0.0
    how = {"noise": noise, "usual": VOTES_USUAL}
    blocks = [(c, rows, moves[c][rows]) for c in range(3) for rows in np.array_split(range(n), 2)]
    plain, knowing = (fit_links(outputs, label, ones(label), moves=m, **how) for m in ((), blocks))
    assert_array_equal(knowing.link.weights, plain.link.weights)
    apart = []
    for i in range(n):
        there = outputs + moves[:, i].T
        refitted = fit_link(*without(i, there, label, ones(label)), **how)
        told = [
            np.log(votes_of(link.scores(outputs[i]), 3)[label[i]])
            for link in (refitted, knowing.without[i], plain.without[i])
        ]
        apart.append(np.subtract(told[1:], told[0]))
    of_knowing, of_plain = np.abs(apart).mean(axis=0)
    assert of_knowing < 0.3 * of_plain


def without(rows, outputs, label, weight):
    """Outputs, labels and weights without a copy of some rows."""
    fewer = weight.copy()
    fewer[rows] -= 1
    return outputs[fewer > 0], label[fewer > 0], fewer[fewer > 0]


def test_rounding_moves_no_row_to_another_fold():
    """Two rows of like outputs: the least difference would let them change places in a sort.

    Of many classes, where links are those of folds.
    """
    rng = np.random.default_rng(10)
    label = np.arange(260) % 13
    outputs = rng.normal(size=(260, 13)) + np.eye(13)[label]
    outputs[13] = outputs[0]
    moved = outputs.copy()
    moved[0] += 1e-9
    moved[13] -= 1e-9
    one, other = (fit_links(given, label, ones(label)) for given in (outputs, moved))
    assert_array_equal(one.fold, other.fold)
    assert np.ptp(np.bincount(one.fold)) <= 1
    for k in range(13):
        assert np.ptp(np.bincount(one.fold[label == k])) <= 1
    for left, right in zip(one.without, other.without, strict=True):
        assert_allclose(left.weights, right.weights, atol=1e-6)
