"""The published billiards, run alike."""

import warnings

import numpy as np
from numpy.testing import assert_allclose

from bayespoint.papers import sample_flipper, sample_jmlr_billiard

SAMPLERS = {"jmlr": sample_jmlr_billiard, "flipper": sample_flipper}


LENGTH = {"jmlr": "max_bounces", "flipper": "n_bounces"}


def jmlr(space, **settings):
    return sample_jmlr_billiard(space, **{"tol": 0.01, "random_state": 0, **settings})


def flipper(space, **settings):
    return sample_flipper(space, **{"n_bounces": 300, "random_state": 0, **settings})


RUNS = {"jmlr": jmlr, "flipper": flipper}


def bounces(name, space, n, **settings):
    """Run for so many bounces, whatever the rule that stops it."""
    if name == "jmlr":
        settings["tol"] = 1e-14
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the billiard stopped after")
        return SAMPLERS[name](space, **{LENGTH[name]: n, "random_state": 0, **settings})


def flipper_sum(a, b, weight_a, weight_b):
    """R&M (18.27), as printed."""
    phi = np.arccos(a @ b)
    part = phi * weight_b / (weight_a + weight_b)
    return np.cos(part) * a + np.sin(part) / np.sin(phi) * (b - np.cos(phi) * a)


def assert_usable(post, space, rtol=1e-9):
    """Draws and centres are unit vectors inside version space; outputs belong to the draws."""
    length = np.sqrt(space.rows.diagonal + space.ridge)
    assert_allclose(post.outputs / length, space.outputs(post.coef) / length, atol=rtol)
    assert_allclose(np.einsum("ij,ij->i", post.coef, post.outputs), 1.0, rtol=rtol)
    assert np.all(space.y * post.outputs > 0)
    assert np.all(post.weights > 0)
    for source in ("published", "path", "draws"):
        assert np.all(space.margins(post.bayes_point(source)) > 0)
        assert_allclose(space.norm(post.bayes_point(source)), 1.0, rtol=rtol)
