"""LSB's figure 1 and question: do perceptrons, billiard and Gibbs draw from one law?"""

import numpy as np
import pytest
from helpers.items import stored, verdicts
from scipy.stats import ks_2samp, kstest

from bayespoint import VersionSpace, inference
from bayespoint.papers.reproduction import lsb_figure_1, lsb_question
from bayespoint.papers.reproduction.folder import plain
from bayespoint.papers.reproduction.item import NO, OPEN, REFUTED, REPRODUCED, YES

# ---------------------------------------------------------------------- figure 1


def errors_data(mean, sd, other_mean, other_sd, skew=False, n_subsets=4):
    rng = np.random.default_rng(4)
    subsets = []
    for _ in range(n_subsets):
        samples = {
            "gibbs": rng.normal(mean, sd, 1000), "billiard": rng.normal(mean, sd, 1000),
            "perceptron": rng.normal(other_mean, other_sd, 1000), "unit": rng.normal(mean, sd, 1000)
        }  # fmt: skip
        if skew:
            samples["perceptron"] = other_mean + other_sd * rng.exponential(1, 1000)
        one = {k: np.bincount(np.maximum(v.round(), 0).astype(int)) for k, v in samples.items()}
        subsets.append(one | {f"{name}_ess": 1000.0 for name in samples})
    return plain({"thin": 1, "subsets": subsets})


def test_figure_1_tells_shift_and_shape_apart(monkeypatch):
    monkeypatch.setattr(lsb_figure_1, "N_PERMUTATIONS", 99)
    name = "lsb-figure-1"
    assert verdicts(name, errors_data(20, 4, 20, 4)) == [REPRODUCED] * 4
    shifted = verdicts(name, errors_data(20, 4, 26, 6))
    assert shifted == [REFUTED, REFUTED, REPRODUCED, REPRODUCED]
    bent = verdicts(name, errors_data(20, 4, 20, 6, skew=True))
    assert bent == [REFUTED] * 4


def test_smoothed_counts_are_uniform_within_a_count():
    values = lsb_figure_1.smoothed([0, 500, 0, 500], np.random.default_rng(0))
    assert len(values) == 1000
    assert kstest(values[:500], "uniform", (0.5, 1)).pvalue > 0.01
    np.testing.assert_array_equal(np.round(values), lsb_figure_1.samples([0, 500, 0, 500]))


def test_distances_are_those_of_kolmogorov_and_smirnov():
    rng = np.random.default_rng(9)
    a, b = rng.normal(2, 3, 40), rng.exponential(1, 60)
    expected = ks_2samp(lsb_figure_1.standardised(a), lsb_figure_1.standardised(b)).statistic
    found = lsb_figure_1.distances(np.concatenate([a, b])[None], 40)
    assert found == pytest.approx([expected])


def test_matched_samples_of_one_law_are_rejected_about_as_often_as_said(monkeypatch):
    monkeypatch.setattr(lsb_figure_1, "N_PERMUTATIONS", 99)
    rng, rejected = np.random.default_rng(10), 0
    for _ in range(200):
        counts = [np.bincount(draws) for draws in rng.poisson(7, (2, 150))]
        smoothed = [lsb_figure_1.smoothed(count, rng) for count in counts]
        rejected += lsb_figure_1.shape_rejects(*smoothed, 150, 150, rng)
    assert 1 <= rejected <= 20  # 5 % are 10


def test_subset_counts_every_draw(monkeypatch):
    monkeypatch.setattr(lsb_figure_1, "N_DRAWS", 200)
    monkeypatch.setattr(lsb_figure_1, "BURN_IN", 1000)
    rng = np.random.default_rng(5)
    X, X_test = rng.random((12, 6)), rng.random((7, 6))
    y, y_test = np.where(X[:, 0] > 0.5, 1, -1), np.where(X_test[:, 0] > 0.5, 1, -1)
    y[:2] = 1, -1
    data = lsb_figure_1.measure_subset(X, y, X_test, y_test, 30, 0)
    for name in ("gibbs", "billiard", "perceptron", "unit"):
        assert data[name].sum() == lsb_figure_1.N_DRAWS
        assert len(data[name]) <= len(y_test) + 1
    trained = lsb_figure_1.measure_subset(X, y, X, y, 30, 0)
    assert all(trained[name][0] == 200 for name in ("gibbs", "billiard", "perceptron", "unit"))


# ---------------------------------------------------------------------- question


def test_rank_test_holds_for_one_law_and_fails_for_two():
    rng = np.random.default_rng(8)
    reference = rng.standard_normal((4000, 100))
    same = lsb_question.rank_test(rng.standard_normal((1000, 100)), 1000, reference, 4000)
    assert kstest(same["p"], "uniform").pvalue > 1e-3
    wider = lsb_question.rank_test(1.5 * rng.standard_normal((1000, 100)), 1000, reference, 4000)
    assert wider["p"].max() < 1e-6


@pytest.fixture
def few_draws(monkeypatch):
    for name, value in {"N_EXACT": 800, "N_CHECK": 200, "N_PERCEPTRONS": 500}.items():
        monkeypatch.setattr(lsb_question, name, value)


@pytest.mark.usefixtures("few_draws")
def test_cone_has_one_perceptron_a_point_and_the_exact_mean():
    data = lsb_question.pooled([lsb_question.measure_set(lsb_question.cone_set(10), [1, 2, 3])])
    perceptron = data["perceptron"]
    # The first point visited is the only mistake: its margins are 1 and 1/2.
    assert perceptron["nonzero"] == [0.1]
    assert perceptron["distinct"] == [10 / 500]
    np.testing.assert_allclose(perceptron["margin_median"], 0.5)
    angle = np.degrees(np.arccos(np.sqrt(5.5 / 10)))
    np.testing.assert_allclose(perceptron["angle_median"], angle, atol=1e-4)
    assert perceptron["off"][0] < 3 * perceptron["off_error"][0]
    assert data["check"]["angle"]["p"] > 1e-3
    assert data["check"]["margin"]["p"] > 1e-3
    assert "test" not in perceptron


def test_known_centre_is_that_of_the_billiard():
    K, y, _, _, centre = lsb_question.cone_set(10)
    space = VersionSpace(K, y)
    assert centre @ space.outputs(centre) == pytest.approx(1)
    posterior = inference.sample_billiard(space, 4000, random_state=0)
    cosine = posterior.bayes_point() @ space.outputs(centre)
    assert np.arccos(cosine) < 3 * posterior.bayes_point_error()


def test_the_question_can_be_answered_both_ways():
    name, data = "lsb-question", stored("lsb-question")
    found = verdicts(name, data)
    assert len(found) == 8
    assert found[:3] == [NO] * 3  # angle, margin, test outputs
    # A second billiard in the place of the perceptrons.
    same = {f"{problem}__perceptron": part["check"] for problem, part in data.items()}
    found = verdicts(name, data, **same)
    assert found[:4] == [YES] * 4
    assert found[-1] == OPEN  # repeats: not in draws of a continuous law


@pytest.mark.usefixtures("few_draws")
def test_a_toy_problem_is_measured_at_its_test_points(monkeypatch):
    monkeypatch.setattr(lsb_question, "TOY_TEST", 30)
    toy = lsb_question.toy_set(np.random.default_rng(9))
    data = lsb_question.pooled([lsb_question.measure_set(toy, [k, 1, 2]) for k in range(2)])
    assert data["n_sets"] == 2
    for name in ("perceptron", "check"):
        assert data[name]["test"]["histogram"].mean() == pytest.approx(1)
        assert len(data[name]["error"]) == 2
    assert data["check"]["distinct"] == [1.0, 1.0]
    assert max(data["perceptron"]["distinct"]) < 1
    assert data["perceptron"]["test"]["failing"] > 0.2 > data["check"]["test"]["failing"]
