"""All samplers of the library, run alike: what the contract tests go through."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from bayespoint import inference, onion, papers
from bayespoint.inference import starts
from bayespoint.space.posterior import dense

# What a few draws may say, and what a run that was cut short has to.
UNMIXED = "the chains of the .* do not agree"
CUT_SHORT = "the billiard stopped after"


@dataclass(frozen=True)
class Sampler:
    """A sampler, settings of a short run, and of one that only a limit ends.

    ``shown``: what the progress line of the short run says at its end.
    """

    function: Callable[..., Any]
    short: dict[str, Any] = field(default_factory=dict)
    endless: dict[str, Any] = field(default_factory=dict)
    shown: tuple[str, ...] = ()

    def takes(self, argument: str) -> bool:
        return argument in inspect.signature(self.function).parameters

    def __call__(self, space: Any, **settings: Any) -> Any:
        """Run, briefly unless told otherwise; that it was so brief is no news."""
        with warnings.catch_warnings():
            for message in (UNMIXED, CUT_SHORT):
                warnings.filterwarnings("ignore", message=message)
            return self.function(space, **{**self.short, "random_state": 0, **settings})


SAMPLERS = {
    "perceptron": Sampler(
        inference.sample_perceptron, {"n_draws": 6}, {"n_draws": 10**6}, ("perceptron", "6/6")
    ),
    "billiard": Sampler(
        inference.sample_billiard,
        {"n_draws": 12, "burn_in": 7},
        {"n_draws": 10**6, "thin": 3},
        ("billiard", "10/10 flights"),
    ),
    "gibbs": Sampler(
        inference.sample_gibbs,
        {"n_draws": 12, "burn_in": 7},
        {"n_draws": 10**6, "thin": 3},
        ("Gibbs", "10/10"),
    ),
    "onion": Sampler(
        onion.sample_onion,
        {"n_draws": 40, "depth": 1, "n_chains": 4},
        {"n_draws": 10**6, "depth": 20, "n_chains": 2},
        ("onion", "110/110"),
    ),
    "jmlr": Sampler(
        papers.sample_jmlr_billiard,
        {"tol": 1e-14, "max_bounces": 50},
        {"max_bounces": 10**7},
        ("jmlr", "50/50"),
    ),
    "flipper": Sampler(
        papers.sample_flipper, {"n_bounces": 50}, {"n_bounces": 10**7}, ("flipper", "50/50")
    ),
    "published onion": Sampler(
        papers.published_onion,
        {"n_bounces": 50, "depth": 1},
        {"n_bounces": 10**7},
        ("onion", "50/50"),
    ),
    "perceptron start": Sampler(starts.perceptron_start),
    "direct start": Sampler(starts.direct_start),
    "light trap": Sampler(starts.light_trap_start, endless={"travel": 1e-6}),
}


def those_that_take(*arguments: str) -> list[str]:
    """Names of the samplers that take all of some arguments."""
    return [name for name, one in SAMPLERS.items() if all(one.takes(a) for a in arguments)]


def arrays(result: Any) -> list[np.ndarray]:
    """What was drawn, to compare bit by bit."""
    if isinstance(result, starts.Start):
        return [result.coef]
    if isinstance(result, onion.Onion):
        names = ("counts", "centres", "log_volume", "log_volume_errors", "centre_errors")
        found = [getattr(result, name) for name in names]
        return [values for values in found if values is not None]
    return [dense(result.coef), result.outputs, result.bayes_point()]


def n_drawn(result: Any) -> int:
    """How far a run came: draws, or bounces."""
    if "bounces" in result.info and np.ndim(result.info["bounces"]) == 0:
        return result.info["bounces"]
    if isinstance(result, onion.Onion):
        return result.info["n_draws"]
    return result.n_draws


def few_draws(space, n_draws=40, **settings):
    """Draws of the billiard that need not agree from chain to chain."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=UNMIXED)
        return inference.sample_billiard(space, n_draws, **{"random_state": 0, **settings})


def assert_usable(result: Any, space: Any, rtol: float = 1e-9) -> None:
    """Unit vectors inside version space (or in their shells), with outputs that are theirs."""
    length = np.sqrt(space.rows.diagonal + space.ridge)
    if isinstance(result, starts.Start):
        coef, outputs = result.coef[None], space.outputs(result.coef)[None]
    elif isinstance(result, onion.Onion):
        held = result.counts > 0
        assert np.any(held)
        assert_allclose(np.exp(result.log_volume).sum(), 1.0)
        coef, outputs = result.centres[held], space.outputs(result.centres[held])
        if held[0, 0]:
            assert np.all(space.margins(result.centres[0, 0]) > 0)
    else:
        coef, outputs = dense(result.coef), result.outputs
        centre = result.bayes_point()
        assert_allclose(space.norm(centre), 1.0, rtol=rtol)
        assert_allclose(outputs / length, space.outputs(coef) / length, atol=rtol)
        violated = np.any(result.info.get("violated", 0))
        assert np.all(space.y * outputs > 0) != violated
        assert violated or np.all(space.margins(centre) > 0)
    if isinstance(result, starts.Start):
        assert np.all(space.y * outputs > 0)
    assert_allclose(np.einsum("ij,ij->i", coef, outputs), 1.0, rtol=rtol)
