"""Rounding errors of the billiard: balls led astray fly again, drift is told, digits are kept."""

import numpy as np
import pytest
from helpers.samplers import assert_usable, few_draws
from helpers.spaces import make_space
from numpy.testing import assert_allclose

from bayespoint import VersionSpace
from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint.inference.billiard.balls import Balls, Table
from bayespoint.space.rows import FullRows


class Astray(FullRows):
    """Rows that multiply the outputs of a ball, at some of the calls for them."""

    def __init__(self, rows, ball, calls, share=-1.0):
        super().__init__(rows.store)
        self.ball, self.calls, self.share, self.n_calls = ball, calls, share, 0

    def outputs(self, ridge, coef):
        outputs = super().outputs(ridge, coef)
        if self.n_calls in self.calls:
            outputs[self.ball] *= self.share
        self.n_calls += 1
        return outputs


def astray(space, **how):
    return VersionSpace(Astray(space.rows, **how), space.y)


# Calls that recompute: 0 and 1 see the starts, then one for each step and each repetition of it.


def test_a_ball_that_rounding_led_astray_flies_again():
    space = make_space(m=20)
    settings = {"burn_in": 0, "start": few_draws(space, 4).coef}
    undisturbed = few_draws(space, 80, **settings)
    assert undisturbed.info["restarts"] == 0
    # Its recomputed outputs turned round: squared length and margins negative.
    with np.errstate(invalid="ignore"):
        posterior = few_draws(astray(space, ball=2, calls={2, 3}), 80, **settings)
    assert posterior.info["restarts"] == 2
    assert posterior.n_draws == 80
    assert_usable(posterior, space)
    # The other balls do not notice; this one has flown elsewhere.
    same = np.all(posterior.draws() == undisturbed.draws(), axis=(1, 2))
    assert same.tolist() == [True, True, False, True]


def test_a_ball_that_goes_astray_again_and_again_is_an_error():
    space = make_space(m=20)
    lost = astray(space, ball=1, calls=range(2, 100))
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match=r"rounding errors.*positive semi-definite.*softness"),
    ):
        few_draws(lost, 80, start=few_draws(space, 4).coef)


def test_drift_is_reported():
    space = make_space(m=20)
    settings = {"burn_in": 0, "start": few_draws(space, 4).coef}
    assert 0 < few_draws(space, 400, **settings).info["drift"] < 1e-12
    drifting = astray(space, ball=1, calls={4}, share=1 + 1e-6)
    assert 1e-8 < few_draws(drifting, 400, **settings).info["drift"] < 1e-6


@pytest.mark.parametrize(
    ("n_features", "dtype"), [(2, np.float64), (2, np.float32), (3, np.float32), (4, np.float64)]
)
def test_many_points_in_few_dimensions_lose_no_digits(n_features, dtype):
    # Coefficients of a vector are not unique then, and could grow without bound.
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(30, n_features))
    space = VersionSpace((X @ X.T).astype(dtype), np.sign(X @ rng.normal(size=n_features)))
    posterior = few_draws(space, 1000)
    assert np.abs(posterior.coef).max() < 1e5
    assert_usable(posterior, space, rtol=1e-3 if dtype is np.float32 else 1e-6)
    if dtype is np.float64:
        assert posterior.info["restarts"] == 0


def make_balls(space, start, n_path=0):
    factor = space.rows.factorise(space.softness, Threads(1))
    n_balls = len(start)
    table = Table(
        space.rows, space.ridge, factor, np.tile(space.y, (n_balls, 1)),
        np.zeros((n_balls, len(space))),
    )  # fmt: skip
    return Balls(table, start, np.random.SeedSequence(0), n_path)


class Scripted(Budget):
    """A budget that is spent from the n-th question on."""

    def __init__(self, n_questions):
        super().__init__()
        self.n_questions = n_questions

    def spent(self):
        self.n_questions -= 1
        return self.n_questions < 0


def test_no_time_for_a_repetition_leaves_no_draw_that_was_never_made(monkeypatch):
    space = make_space(m=20)
    start = few_draws(space, 4).coef
    balls = make_balls(astray(space, ball=1, calls={1}), start)

    def poisoned(shape, dtype=np.float64, **_):
        return np.full(shape, np.nan if np.issubdtype(dtype, np.floating) else -1, dtype)

    # Each of four balls asks once and flies to the end; then there is no time left.
    with monkeypatch.context() as patch, np.errstate(invalid="ignore"):
        patch.setattr(np, "empty", poisoned)
        step = balls.step(6, 2, 1.5, Scripted(4), Threads(1))
    for coef in [] if step is None else step[0].reshape(-1, 20):
        assert_allclose(space.norm(coef), 1.0, rtol=1e-9)
        assert np.all(space.margins(coef) > 0)
    assert np.isfinite(balls.drift)
