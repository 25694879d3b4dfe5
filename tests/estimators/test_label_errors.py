"""Which of the training labels are wrong: against exact draws, known flips, row by row."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import by_hand, classifier, flowers, unusual
from helpers.thresholds import compare_means, fails_clearly
from helpers.version_spaces import EXACT_DRAWS, N_CHAINS, assert_passes, exact_draws, skewed
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import average_precision_score
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint.estimators import making
from bayespoint.estimators.label_errors import label_errors, noise_of_rates, sampled_without
from bayespoint.inference import expectation_propagation
from bayespoint.inference.problem import Problem
from bayespoint.space.links import vote_outputs, votes_of

SAMPLERS = ["billiard", "gibbs"]


# ---------------------------------------------------------------------- rows left out of draws


def as_used(problem, coef):
    """Probability of a positive output at each point, from draws that know its label."""
    m = len(problem.y)
    space = problem.space
    of_draws = Problem.of_space(space, np.broadcast_to(problem.noise, m))
    return sampled_without(of_draws, [coef], space.rows.factorise(0.0, space.rows.threads))[0][:, 1]


def with_its_label(problem, coef):
    """Wrong: each draw counts alike, and knows the label."""
    return np.mean(coef @ problem.K > 0, axis=0)


def against_points_left_out(problem, found=as_used):
    """Check against exact draws that the label of each point tells nothing: its rate is a half."""
    m = len(problem.y)

    def check(length, seed):
        rng = np.random.default_rng(seed)
        differences = np.empty((N_CHAINS, m))
        coef = exact_draws(problem, N_CHAINS * length, rng).reshape(N_CHAINS, length, m)
        for i in range(m):
            noise = np.broadcast_to(problem.noise, m).copy()
            noise[i] = 0.5
            without = problem._replace(noise=noise)
            outputs = exact_draws(without, EXACT_DRAWS * N_CHAINS * length, rng) @ problem.K[:, i]
            differences[:, i] = -np.mean((outputs > 0).reshape(N_CHAINS, -1), axis=1)
        differences += [found(problem, draws) for draws in coef]
        return compare_means(differences, 0.0)

    return check


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_draws_without_the_label_of_a_point(noise):
    assert_passes(against_points_left_out(skewed(4, 1, noise=noise)), 300, seed=0, detects=0.05)


def test_draws_that_know_the_label_would_be_noticed():
    assert fails_clearly(against_points_left_out(skewed(4, 1, noise=0.1), with_its_label)(300, 1))


# ---------------------------------------------------------------------- flips of known rates


def flipped(n_classes, rate, rng, n=600, confused=False, flat=1.0):
    """Probabilities as a model might give them, true classes and labels, some of them wrong."""
    outputs = 6 * rng.standard_normal((n, n_classes))
    true = np.argmax(outputs + rng.gumbel(size=outputs.shape), axis=1)
    turned = rng.random(n) < rate
    step = 1 if confused else rng.integers(1, n_classes, n)
    return softmax(flat * outputs, axis=1), true, np.where(turned, (true + step) % n_classes, true)


def against_flips(n_classes, rates, counted=None):
    """Check expected against actual numbers of wrong labels."""

    def check(length, seed):
        rng = np.random.default_rng(seed)
        differences = []
        for _ in range(length):
            rate = 0.1
            proba, true, label = flipped(n_classes, rate, rng, flat=0.5)
            if counted is None:
                given = np.full(n_classes, rates)
                expected = label_errors(proba, label, np.ones(len(label)), given).number[0]
            else:
                expected = counted(proba, label)
            differences.append(expected - np.count_nonzero(label != true))
        return compare_means(np.array(differences)[:, None], 0.0)

    return check


def unlikely(proba, label):
    """Wrong: classes overlap, and a label that is unlikely need not be wrong."""
    return np.sum(1 - proba[np.arange(len(label)), label])


@pytest.mark.parametrize(("n_classes", "rates"), [(2, 0.0), (5, 0.0), (3, 0.1)])
def test_the_sum_is_the_number_of_wrong_labels(n_classes, rates):
    """Rates given and not, from probabilities that are too flat."""
    assert_passes(against_flips(n_classes, rates), length=16, seed=0, detects=20)


def test_labels_that_are_merely_unlikely_would_be_noticed():
    assert fails_clearly(against_flips(5, 0.0, unlikely)(16, 0))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 5, 10])
@pytest.mark.parametrize("rates", [0.0, 0.1])
def test_the_sum_is_the_number_of_wrong_labels_in_long_runs(n_classes, rates):
    assert_passes(against_flips(n_classes, rates), length=100, seed=0, detects=8)


def test_the_interval_holds_the_number():
    rng = np.random.default_rng(0)
    held = 0
    for rate in np.repeat([0.0, 0.05, 0.2], 8):
        proba, true, label = flipped(3, rate, rng, flat=0.5)
        _, low, high = label_errors(proba, label, np.ones(len(label)), np.zeros(3)).number
        held += low <= np.count_nonzero(label != true) <= high
    assert held >= 18  # of 24: 95 % of them but for 1e-4


def test_outputs_that_are_sure_have_a_number():
    """A NaN would be an interval of nothing."""
    label = np.arange(60) % 3
    proba = np.eye(3)[np.where(np.arange(60) < 6, (label + 1) % 3, label)]
    expected, low, high = label_errors(proba, label, np.ones(60), np.zeros(3)).number
    assert low <= expected <= high
    assert expected == pytest.approx(6, abs=0.5)


def test_pairs_of_classes_that_are_confused_come_first():
    rng = np.random.default_rng(0)
    proba, true, label = flipped(5, 0.2, rng, confused=True, flat=0.5)
    found = label_errors(proba, label, np.ones(len(label)), np.zeros(5))
    rows, wrong = np.arange(len(label)), label != true
    by_pairs = average_precision_score(wrong, 1 - found.proba[rows, label])
    alike = label_errors(proba, label, np.ones(len(label)), np.full(5, 0.2))
    by_one_rate = average_precision_score(wrong, 1 - alike.proba[rows, label])
    assert by_pairs > by_one_rate
    assert np.mean(found.proba.argmax(axis=1)[wrong] == true[wrong]) > 0.8


def test_bayes_rule_by_hand():
    assert_allclose(noise_of_rates(np.full(3, 0.2)), np.full((3, 3), 0.1) + 0.7 * np.eye(3))
    rates = np.array([0.0, 0.2])  # labels 0 are sure; T_01 / T_11 = 1/4
    noise = noise_of_rates(rates)
    assert_allclose(noise, [[0.75, 0.25], [0.0, 1.0]])
    rng = np.random.default_rng(0)
    proba = softmax(3 * rng.standard_normal((20_000, 2)), axis=1)
    true = (rng.random(len(proba)) < proba[:, 1]).astype(int)
    label = (rng.random(len(proba)) < noise[true, 1]).astype(int)
    found = label_errors(proba, label, np.ones(len(label)), rates).proba
    joint = proba * noise.T[label]
    assert_allclose(found, joint / joint.sum(axis=1, keepdims=True), atol=0.03)
    assert_array_equal(found[label == 0, 0], 1.0)


def test_softened_probabilities_order_and_others_count():
    rng = np.random.default_rng(0)
    proba, _, label = flipped(3, 0.1, rng)
    softened, ones = 0.7 * proba + 0.1, np.ones(len(label))
    rows, rates = np.arange(len(label)), np.full(3, 0.1)
    counted, ordered = (label_errors(p, label, ones, rates) for p in (proba, softened))
    found = label_errors(proba, label, ones, rates, softened)
    assert_array_equal(found.number, counted.number)
    assert abs(ordered.number[0] - counted.number[0]) > 1  # so that the next line says something
    assert np.sum(1 - found.proba[rows, label]) == pytest.approx(counted.number[0])
    # All odds that a label is wrong times one number, in the order of those with softness.
    odds = [p[rows, label] / (1 - p[rows, label]) for p in (found.proba, ordered.proba)]
    assert_allclose(odds[0] / odds[1], (odds[0] / odds[1])[0], rtol=1e-6)


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_by_hand_from_outputs_without_a_row_and_with_softness(label_noise):
    X, y, *_ = flowers(3, step=6)
    clf = classifier(inference="ep", label_noise=label_noise).fit(X, y)
    # Rows are dealt to folds in the order in which they are merged.
    row, K = clf.trained_.row, by_hand(clf, X, X)[0]
    sure, soft = [], []
    for machine in range(3):
        rates = np.where(y == machine, label_noise, label_noise / 2)[row]
        space = VersionSpace(K[np.ix_(row, row)], np.where(y[row] == machine, 1, -1), clf.softness_)
        posterior = expectation_propagation(space, label_noise=rates)
        sure.append(posterior.sureness())
        soft.append(posterior.held_out_scores())
    proba, softened = (votes_of(vote_outputs(np.array(z)), 3) for z in (sure, soft))
    given = np.ones(len(row)), np.full(3, label_noise)
    found = label_errors(proba, y[row], *given, softened)
    wrong = 1 - found.proba[np.arange(len(row)), y[row]]
    assert_allclose(clf.label_error_proba_[row], wrong, atol=1e-3)
    assert_allclose(clf.n_label_errors_, found.number, atol=0.05)
    assert clf.n_label_errors_[0] == pytest.approx(clf.label_error_proba_.sum())


def with_twelve_flips():
    X, y = make_blobs(120, centers=[[0, 0], [5, 0], [0, 5]], random_state=1)
    return X, np.where(np.arange(120) % 10, y, (y + 1) % 3)


def test_perceptrons_count_them_too():
    X, given = with_twelve_flips()
    clf = classifier(inference="perceptron", n_draws=50).fit(X, given)
    assert set(np.argsort(-clf.label_error_proba_)[:12]) == set(range(0, 120, 10))
    expected, low, high = clf.n_label_errors_
    assert expected == pytest.approx(12, abs=1)
    assert low <= 12 <= high


@pytest.mark.parametrize(("settings", "n_off"), [({}, 1), ({"n_landmarks": 10}, 0)], ids=str)
def test_cells_know_as_much(settings, n_off):
    X, given = with_twelve_flips()
    exact = classifier(inference="ep").fit(X, given).label_error_proba_
    clf = classifier(inference="ep", cell_size=40, **settings).fit(X, given)
    off = np.abs(clf.label_error_proba_ - exact)
    assert off.mean() < 0.005
    # Without landmarks, a cut may take half the neighbours of a row between two classes.
    assert np.count_nonzero(off > 0.05) <= n_off
    assert off.max() < 0.2
    assert clf.n_label_errors_[0] == pytest.approx(12, abs=0.5)


@pytest.mark.parametrize("inference", SAMPLERS)
def test_labels_that_must_be_right_are(inference):
    X, y, *_ = flowers(2, step=6)
    # Labels of one class sure, of the other not.
    half = classifier(inference=inference, softness=0.0, label_noise=[0.0, 0.4], n_draws=80)
    half.fit(X, y)
    assert_allclose(half.label_error_proba_[y == 0], 0.0, atol=1e-12)
    assert half.label_error_proba_[y == 1].max() > 0


# ---------------------------------------------------------------------- rows


def noisy_rows(n_classes=3, seed=0):
    """Training rows with copies, some of them with another label, and weights, some of them 0."""
    X, y, *_ = flowers(n_classes, step=5)
    rng = np.random.default_rng(seed)
    copied = rng.choice(len(y), 12, replace=False)
    label = y[copied].copy()
    label[:4] = (label[:4] + 1) % n_classes
    X, y = np.vstack([X, X[copied]]), np.append(y, label)
    weight = np.ones(len(y))
    weight[[3, len(y) - 1]] = 0.0
    return X, y, weight, copied


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_number_for_each_row_in_its_order(n_classes):
    X, y, weight, copied = noisy_rows(n_classes)
    n = len(y) - len(copied)
    clf = classifier(label_noise=0.1, n_draws=40).fit(X, y, weight)
    wrong = clf.label_error_proba_
    assert wrong.shape == y.shape
    assert_array_equal(np.isnan(wrong), weight == 0)
    known = wrong[weight > 0]
    assert np.all((known >= 0) & (known <= 1))
    # Copies share a number; of copies with two labels one is doubtful.
    for row, original in zip(range(n, len(y)), copied, strict=True):
        if weight[row] * weight[original] == 0:
            continue
        if y[row] == y[original]:
            assert wrong[row] == wrong[original]
        else:
            assert wrong[row] + wrong[original] > 2 * np.median(known)
    # Rows in another order, and without those of no weight.
    order = np.random.default_rng(1).permutation(len(y))
    turned = classifier(label_noise=0.1, n_draws=40).fit(X[order], y[order], weight[order])
    assert_array_equal(turned.label_error_proba_, wrong[order])
    kept = weight > 0
    less = classifier(label_noise=0.1, n_draws=40).fit(X[kept], y[kept])
    assert_array_equal(less.label_error_proba_, wrong[kept])


def test_copies_are_one_point_of_their_weight():
    X, y, *_ = flowers(2, step=6)
    twice = classifier(label_noise=0.1).fit(np.vstack([X, X]), np.append(y, y))
    weighted = classifier(label_noise=0.1).fit(X, y, np.full(len(y), 2.0))
    assert_array_equal(twice.label_error_proba_, np.tile(weighted.label_error_proba_, 2))
    assert not np.array_equal(
        weighted.label_error_proba_, classifier(label_noise=0.1).fit(X, y).label_error_proba_
    )


def test_gram_matrices_keep_the_order_of_their_rows():
    X, y, weight, _ = noisy_rows(2)
    K = rbf_kernel(X)
    settings = {"kernel": "precomputed", "label_noise": 0.1, "n_draws": 400}
    clf = classifier(**settings).fit(K, y, weight)
    wrong = clf.label_error_proba_
    assert_array_equal(np.isnan(wrong), weight == 0)
    gram = (K + 1) / 2  # with the bias, of unit length
    coef, target = clf.posterior(0).coef, np.where(y == 1, 1, -1)
    sign = np.mean(target * (coef @ gram) < 0, axis=0)[weight > 0]
    # Nearly the same: labels on the wrong side are wrong, or near the boundary.
    assert np.corrcoef(wrong[weight > 0], sign)[0, 1] > 0.8


def test_layouts():
    X, y, *_ = flowers(2, step=6)
    names = np.array(["no", "yes"])
    expected = classifier(label_noise=0.1, n_draws=400).fit(X, y).label_error_proba_
    for layout in (sp.csr_matrix, np.float32, list):
        clf = classifier(label_noise=0.1, n_draws=400).fit(layout(X), names[y])
        assert clf.label_error_proba_.shape == y.shape
        assert np.abs(clf.label_error_proba_ - expected).max() < 0.15


# ---------------------------------------------------------------------- finding flips


@pytest.mark.parametrize(("n_classes", "inference"), [(3, "billiard"), (2, "gibbs"), (3, "ep")])
@pytest.mark.filterwarnings("ignore:the chains of the gibbs.* do not agree")
def test_clear_flips_come_first(n_classes, inference):
    X, y = make_blobs(60, centers=[[0, 0], [6, 0], [0, 6]][:n_classes], random_state=0)
    flipped = np.arange(0, 60, 15)
    given = y.copy()
    given[flipped] = (given[flipped] + 1) % n_classes
    clf = classifier(inference=inference, label_noise=0.05, n_draws=100, gamma=0.2, softness=0.1)
    wrong = clf.fit(X, given).label_error_proba_
    worst = np.argsort(-wrong)[: len(flipped)]
    assert set(worst) == set(flipped)
    others = np.delete(wrong, flipped)
    assert wrong[flipped].min() > 0.5 > others.max()
    # A negative control: with flips that are not there, none is suspected.
    clean = clone(clf).fit(X, y).label_error_proba_
    assert clean.max() < 0.5


# ---------------------------------------------------------------------- as an attribute


@pytest.mark.parametrize("name", ["label_error_proba_", "n_label_errors_"])
def test_it_needs_rows_left_out(name):
    X, y, *_ = flowers(2, step=6)
    clf = classifier(inference="perceptron", decision="vote")
    with pytest.raises(AttributeError, match=f"{name} is available after fit"):
        getattr(clf, name)
    assert not hasattr(clf.fit(X, y), name)
    with pytest.raises(
        AttributeError, match=r"'ep', 'billiard' or 'gibbs'.*'perceptron' and 'vote'"
    ):
        getattr(clf, name)
    assert hasattr(clf.set_params(inference="billiard").fit(X, y), name)
    assert not hasattr(clf.set_params(inference="perceptron").fit(X, y), name)


@pytest.mark.parametrize("decision", ["bayes_point", "vote", "span_vote"])
def test_it_does_not_depend_on_the_decision_and_travels(decision):
    X, y, new, _ = flowers(3, step=6)
    clf = classifier(decision=decision, label_noise=0.1).fit(X, y)
    wrong = clf.label_error_proba_
    expected = classifier(decision="vote", label_noise=0.1).fit(X, y).label_error_proba_
    assert_allclose(wrong, expected, atol=1e-12)
    clf.predict_proba(new), clf.posterior(0), clf.sample_proba(new)
    assert_array_equal(clf.label_error_proba_, wrong)
    wrong[:] = 7.0  # of the caller
    assert_array_equal(pickle.loads(pickle.dumps(clf)).label_error_proba_, clf.label_error_proba_)
    assert clf.label_error_proba_.max() <= 1
    assert not unusual(vars(clf), "clf")
    with pytest.raises(AttributeError):
        clf.label_error_proba_ = wrong
    if decision == "bayes_point":
        small = clf.compress(tol=0.1)
        assert_array_equal(small.label_error_proba_, clf.label_error_proba_)


@pytest.mark.parametrize("inference", SAMPLERS)
def test_a_warm_start_counts_all_draws(inference, monkeypatch):
    counted = []

    def seen(problem, coef, *others):
        counted.append([len(draws) for draws in coef])
        return sampled_without(problem, coef, *others)

    monkeypatch.setattr(making, "sampled_without", seen)
    X, y, *_ = flowers(2, step=6)
    clf = classifier(inference=inference, warm_start=True, label_noise=0.1).fit(X, y)
    before, n_before = clf.label_error_proba_, clf.n_draws_
    clf.set_params(n_draws=24).fit(X, y)
    assert counted == [[n_before], [24]]
    at_once = classifier(inference=inference, label_noise=0.1, n_draws=24).fit(X, y)
    assert_allclose(clf.label_error_proba_, at_once.label_error_proba_, atol=0.15)
    assert not np.array_equal(clf.label_error_proba_, before)
