"""The papers' sums of chords and arcs: what defines them, and their rules as printed."""

from itertools import product

import numpy as np
import pytest
from helpers.flights import flipper_sum
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint.papers.straight import FLAT, ArcSum, ChordSum, Vector, chord, chord_weights


def plane(theta):
    """Unit vector at an angle in the plane: coefficients over an orthonormal basis."""
    coef = np.array([np.cos(theta), np.sin(theta)])
    return Vector(coef, coef.copy())


# ---------------------------------------------------------------------- JMLR's sum

COSINES = (-0.9, -0.3, 0.0, 0.4, 0.99, 1 - 1e-9, 1.0)
SHARES = (0.0, 1e-6, 0.2, 0.5, 0.9, 1 - 1e-6, 1.0)


@pytest.mark.parametrize("cosine", COSINES)
def test_chord_weights_have_the_properties_that_define_them(cosine):
    first, second = plane(np.arccos(cosine)), plane(0.0)
    distance = np.linalg.norm(first.coordinates - second.coordinates)
    for share in SHARES:
        rho_1, rho_2 = chord_weights(cosine, share)
        assert min(rho_1, rho_2) > -1e-15
        total = rho_1 * first.coordinates + rho_2 * second.coordinates
        assert_allclose(np.linalg.norm(total), 1.0, rtol=1e-9)
        assert_allclose(np.linalg.norm(total - second.coordinates), share * distance, atol=1e-9)


def test_chord_weights_of_a_vector_with_itself_are_the_shares():
    for share in SHARES:
        assert_allclose(chord_weights(1.0, share), (share, 1 - share), atol=1e-15)


def test_a_chord_sum_is_at_the_share_of_the_distance():
    total = ChordSum()
    total.add(plane(0.3), 2.0)
    assert_array_equal(total.centre.coordinates, plane(0.3).coordinates)
    before, added, length = total.centre, plane(1.2), 0.5
    total.add(added, length)
    assert_allclose(chord(total.centre, added), 2.0 / 2.5 * chord(before, added), rtol=1e-12)
    assert_allclose(total.centre.dot(total.centre), 1.0, rtol=1e-12)
    assert (total.total, total.longest) == (2.5, 2.0)
    assert_allclose(total.least_cosine, np.cos(0.9), rtol=1e-12)
    assert_allclose(total.weight_of_next(), chord_weights(np.cos(0.9), 2.5 / 4.5)[1], rtol=1e-12)


def test_the_weight_of_the_next_chord_bounds_what_it_gets():
    rng = np.random.default_rng(0)
    total = ChordSum()
    total.add(plane(0.0), 1.0)
    for _ in range(200):
        bound = total.weight_of_next()
        added, length = plane(rng.uniform(-0.5, 0.5)), rng.uniform(0, total.longest)
        cosine = total.centre.dot(added)
        if cosine >= total.least_cosine:
            assert chord_weights(cosine, total.total / (total.total + length))[1] <= bound + 1e-12
        total.add(added, length)


# ---------------------------------------------------------------------- R&M's sum


def arc_sum(*added):
    total = ArcSum()
    for vector, length in added:
        total.add(vector, length)
    return total


WEIGHTS = (1.0, 1.0), (3.0, 0.2), (0.0, 1.0), (1.0, 0.0), (2.0, 5.0)


def test_an_arc_sum_of_two_vectors_divides_their_angle_by_the_weights():
    for weights, between in product(WEIGHTS, (0.01, 0.7, np.pi / 2, 3.0)):
        a, b = plane(0.4), plane(0.4 + between)
        total = arc_sum((a, weights[0]), (b, weights[1]))
        found, share = total.centre.coordinates, weights[1] / sum(weights)
        assert_allclose(found, plane(0.4 + share * between).coordinates, atol=1e-9)
        assert_allclose(found, flipper_sum(a.coordinates, b.coordinates, *weights), atol=1e-9)
        assert total.total == sum(weights)


def test_arcs_too_small_for_the_rule_are_divided_all_the_same():
    for between in (0.0, 1e-12, 1e-8, 0.999 * FLAT, 1.001 * FLAT, 1e-5):
        total = arc_sum((plane(0.0), 1.0), (plane(between), 3.0))
        assert_allclose(total.centre.coordinates[1], 0.75 * between, rtol=1e-9)
        assert_allclose(total.centre.dot(total.centre), 1.0, rtol=1e-15)


def test_the_order_matters_to_an_arc_sum_on_the_sphere_and_not_on_a_circle():
    rng = np.random.default_rng(0)
    circle = [(plane(theta), theta + 0.1) for theta in rng.uniform(0, 1.5, 5)]
    expected = arc_sum(*circle).centre.coordinates
    assert_allclose(arc_sum(*circle[::-1]).centre.coordinates, expected, atol=1e-12)
    sphere = [(Vector(x, x), 1.0) for x in np.eye(3)]
    assert chord(arc_sum(*sphere).centre, arc_sum(*sphere[::-1]).centre) > 0.05
