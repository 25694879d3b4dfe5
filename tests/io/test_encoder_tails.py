"""Columns with long tails count by rank: a map that rises, is continuous and has no unit."""

import json
import math

import numpy as np
import pytest
from helpers.refusals import assert_refused
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import BayesPointClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.encoder.tails import MOST_KNOTS, N_KNOTS

GIVEN = {"gamma": 0.5, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}


def fitted(*values, long_tails="rank"):
    return TableEncoder(long_tails=long_tails).fit(column(*values))


def column(*values):
    return np.array(values, dtype=float)[:, None]


def knots(encoder):
    return encoder.columns_[0].knots


def lognormal(n=500, sigma=3.0, seed=0):
    return np.exp(sigma * np.random.default_rng(seed).standard_normal(n))


def test_what_has_a_long_tail():
    assert not knots(fitted(0, 0, 0, 1, 1000, long_tails="keep"))
    for values, tail in [
        ((0, 1, 2, 3, 10), False),
        ((0, 1, 2, 3, 40), True),  # 38 from the median 2, and half of the others within 2
        ((-40, 1, 2, 3, 4), True),
        ((0, 0, 0, 0, 0, 1000), False),  # two values
        ((0, 0, 0, 1, 1, 1, 1000), True),
        ((0, 0, 0, 0, 0, 5, 6, 7, 8, 9), False),
    ]:
        assert bool(knots(fitted(*values))) == tail, values
    assert not knots(fitted(*np.random.default_rng(0).standard_normal(10_000)))
    assert knots(fitted(*lognormal(100)))


def test_few_values_become_their_mean_ranks():
    values = np.array([0, 0, 0, 0, 1, 2, 2, 300.0])
    places = np.array([2, 2, 2, 2, 4.5, 6, 6, 7.5]) / 8
    encoder = fitted(*values)
    wanted = (places - places.mean()) / places.std()
    assert_allclose(encoder.transform(column(*values))[:, 0], wanted)
    between = encoder.transform(column(0.5, 151))[:, 0]
    assert_allclose(between * places.std() + places.mean(), [3.25 / 8, 6.75 / 8])


def test_it_rises_and_is_continuous():
    values = lognormal()
    encoder = fitted(*values)
    assert 2 <= len(knots(encoder)) <= N_KNOTS
    made = encoder.transform(column(*values))[:, 0]
    assert abs(made.mean()) < 1e-12
    assert abs(made.std() - 1) < 1e-12
    ranks = np.argsort(np.argsort(values)) / len(values)
    assert np.abs((made - made[values.argmin()]) * np.std(ranks) - ranks).max() < 0.02
    x = np.linspace(-1, 3, 40_001)
    steps = np.diff(encoder.transform(column(*x))[:, 0])
    assert (steps > 0).all()
    assert steps.max() < 0.02
    ends = np.nextafter(knots(encoder), np.inf), np.nextafter(knots(encoder), -np.inf)
    above, below = (encoder.transform(column(*end)) for end in ends)
    assert_allclose(above, below, atol=1e-9)


def test_points_far_outside_remain_far():
    encoder = fitted(0, 0, 1, 1, 2, 100)
    place = 1 / encoder.columns_[0].scale  # the whole range of ranks, as deviations
    span = place * (encoder.columns_[0].places[-1] - encoder.columns_[0].places[0])
    low, high, below, above = encoder.transform(column(0, 100, -200, 400))[:, 0]
    assert_allclose([low - below, above - high], [2 * span, 3 * span])
    made, notes = encoder.encode(column(1e308, -1e308, 50))
    assert made[:2, 0].tolist() == [1e6, -1e6]
    assert len(notes) == 1
    assert "2 numbers more than 1,000,000 standard deviations" in notes[0]


@pytest.mark.parametrize(("factor", "shift"), [(1e-3, 0), (7.3, 0), (1, 1e3), (1e300, 0), (3, -50)])
def test_units_and_origin_do_not_matter(factor, shift):
    values, new = lognormal(seed=1), np.concatenate([lognormal(seed=2), [-5.0, 1e5]])
    wanted = fitted(*values).transform(column(*new))
    found = fitted(*values * factor + shift).transform(column(*new * factor + shift))
    assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("far", [1e308, -1.7e308])
def test_numbers_that_would_overflow(far):
    values = np.array([-far, 1e-300, 2e-300, 3e-300, 4e-300, np.nan, far])
    encoder = fitted(*values)
    made = encoder.transform(column(*values, far, -far))[:, 0]
    assert np.isfinite(made).all()
    assert_allclose(np.diff(made[1:5]), np.diff(made[1:5])[0])  # 1 to 4 are a rank apart
    assert len(set(made[:5].tolist())) == 5
    beyond = encoder.transform(column(-1.79e308, -abs(far), abs(far), 1.79e308))[:, 0]
    assert (np.diff(beyond) > 0).all()
    tiny = fitted(*5e-324 * np.array([0, 1, 2, 3, 4, 1e5])).transform(column(0, 5e-320, 1e308))
    assert np.isfinite(tiny).all()


def test_missing_values_are_the_median():
    encoder = fitted(1, 2, 3, np.nan, 4, 500)
    made, notes = encoder.encode(column(np.nan, 3))
    assert made[0] == made[1]
    assert notes == ["1 missing cell filled in: 1 column ('x0')."]
    places = np.array([0.5, 1.5, 2.5, 2.5, 3.5, 4.5]) / 5
    assert_allclose([encoder.columns_[0].mean, encoder.columns_[0].scale],
                    [places.mean(), places.std()])  # fmt: skip


def test_a_column_that_tells_is_not_lost_in_its_tail():
    """The negative control is "keep": all but a few values are one for the kernel."""
    z = np.random.default_rng(0).standard_normal((400, 3))
    X, y = np.exp(4 * z), z[:, 0] > 0.3 * z[:, 1]
    score = {}
    for long_tails in ("keep", "rank"):
        encoder = TableEncoder(long_tails=long_tails).fit(X[:200])
        clf = BayesPointClassifier(**GIVEN).fit(encoder.transform(X[:200]), y[:200])
        score[long_tails] = clf.score(encoder.transform(X[200:]), y[200:])
    assert score["keep"] < 0.75
    assert score["rank"] > 0.9


def test_many_columns_have_fewer_knots():
    """A model file has room for the knots of all columns."""
    X = np.exp(4 * np.random.default_rng(0).standard_normal((70, 8_000)))
    encoder = TableEncoder().fit(X)
    lengths = [len(column.knots) for column in encoder.columns_]
    assert max(lengths) == MOST_KNOTS // 8_000
    assert sum(lengths) <= MOST_KNOTS


def state_with(**changes):
    state = fitted(0, 0, 1, 2, 2, 300).to_state()
    state["columns"][0].update(changes)
    return json.loads(json.dumps(state))


def test_state_goes_through_json():
    encoder, new = fitted(*lognormal()), column(*lognormal(seed=3), -1, 1e9, np.nan)
    state = json.loads(json.dumps(encoder.to_state(), allow_nan=False))
    again = TableEncoder.from_state(state)
    assert_array_equal(again.transform(new), encoder.transform(new))
    assert again.columns_ == encoder.columns_
    assert again.to_state() == encoder.to_state()
    kept = fitted(*lognormal(), long_tails="keep")
    assert TableEncoder.from_state(kept.to_state()).long_tails == "keep"


def test_odd_states_are_refused():
    rising = [i / 70 for i in range(66)]
    assert knots(TableEncoder.from_state(state_with())) == (0, 1, 2, 300)
    for changes in [
        {"knots": []}, {"places": []}, {"knots": None}, {"places": "0123"}, {"knots": {}},
        {"knots": [0.0, 1.0, 2.0]}, {"knots": [0.0, 2.0, 1.0, 3.0]},
        {"knots": [0.0, 1.0, 1.0, 3.0]}, {"knots": [0, 1, 2, 3]}, {"knots": [0.0, 1.0, 2.0, True]},
        {"knots": [0.0, 1.0, 2.0, math.inf]}, {"knots": [0.0, math.nan, 2.0, 3.0]},
        {"knots": [0.0, 5e-324, 2.0, 3.0]}, {"knots": [0.0, 1.0, 2.0, "3"]},
        {"places": [0.1, 0.3, 0.2, 0.9]}, {"places": [0.1, 0.1, 0.1, 0.1]},
        {"places": [-0.1, 0.3, 0.4, 0.9]}, {"places": [0.1, 0.3, 0.4, 1.1]},
        {"places": [0.1, 0.3, math.nan, 0.9]}, {"places": [0.1, 0.3, None, 0.9]},
        {"knots": [1.0], "places": [0.5]}, {"knots": rising, "places": rising},
    ]:  # fmt: skip
        state = state_with(**changes)
        with pytest.raises(ValueError, match="stored encoder is not valid: knots"):
            TableEncoder.from_state(state)
    with pytest.raises(ValueError, match="long_tails='keep' has no knots"):
        TableEncoder.from_state(state_with() | {"long_tails": "keep"})


def test_bad_values_of_long_tails_are_refused():
    cases = [({"long_tails": bad}, "long_tails must be one of") for bad in ("Rank", None, True, [])]
    assert_refused(
        lambda long_tails: TableEncoder(long_tails=long_tails).fit([[1.0], [2.0]]), cases
    )
    states = [({"state": state_with() | given}, "long_tails must be") for given, _ in cases]
    assert_refused(TableEncoder.from_state, states)
