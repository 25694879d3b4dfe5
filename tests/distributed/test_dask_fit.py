"""Fits on a cluster of processes: the model of one machine, to the last digit."""

import itertools
import os
import pickle
import platform
import subprocess
import sys

import numpy as np
import pytest
from helpers.clusters import bits, local_cluster, on_cluster, one, rows
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("dask")  # not "distributed", which is this folder where it is missing

from bayespoint import BayesPointClassifier
from bayespoint.distributed import DaskBayesPointClassifier

NEW = rows(200, seed=1)[0]

# Of rows that are asked for in other blocks: some BLAS kernels for float32 then round otherwise.
OTHER_BLOCKS = 1e-6


@pytest.fixture(scope="module", autouse=True)
def client():
    cluster, client = local_cluster()
    with cluster, client:
        yield client


def fitted(clf, X, y, n_parts=3, weight=None):
    return DaskBayesPointClassifier(clf).fit(*on_cluster(X, y, n_parts), weight)


def proba(clf, X):
    import dask.array as da

    return clf.predict_proba(da.from_array(X, chunks=(70, -1))).compute()


@pytest.mark.parametrize(
    ("n_classes", "n_landmarks", "n_trees"), [(2, 0, 2), (3, 0, 1), (2, 20, 2), (3, 20, 1)]
)
def test_the_model_is_that_of_one_machine(n_classes, n_landmarks, n_trees):
    X, y = rows(500, n_classes=n_classes)
    given = {"n_landmarks": n_landmarks, "n_trees": n_trees, "cell_size": 55}  # 9 or 10 cells
    wanted = one(**given).fit(X, y)
    many = fitted(one(**given), X, y)
    assert_allclose(proba(many, NEW), wanted.predict_proba(NEW), atol=1e-12)
    local = many.to_local()
    for found, same in zip(bits(local), bits(wanted), strict=True):
        assert_array_equal(found, same)
    assert_array_equal(local.predict_proba(NEW), wanted.predict_proba(NEW))
    assert_array_equal(local.held_out_proba_, wanted.held_out_proba_)
    assert_array_equal(local.label_error_proba_, wanted.label_error_proba_)
    assert_array_equal(local.support_, wanted.support_)
    assert local.log_evidence_ == wanted.log_evidence_


def test_other_rows_are_another_model():
    X, y = rows(200)
    wanted = one(n_trees=1).fit(X, y)
    other = fitted(one(n_trees=1), X[:-1], y[:-1]).to_local()
    assert np.max(np.abs(other.predict_proba(NEW) - wanted.predict_proba(NEW))) > 1e-4


def test_neither_partitions_nor_chunks_are_felt(monkeypatch):
    from bayespoint.distributed import inference, ordering

    X, y = rows()
    first = fitted(one(n_trees=1), X, y, 1).to_local()
    monkeypatch.setattr(ordering, "CHUNK_BYTES", 4_000)
    monkeypatch.setattr(inference, "CHUNKS_PER_THREAD", 1)
    second = fitted(one(n_trees=1), X, y, 17).to_local()
    for found, same in zip(bits(second), bits(first), strict=True):
        assert_array_equal(found, same)


def test_values_far_away_leave_chunks_of_equal_sizes(monkeypatch):
    """Beside them, all other rows have one place in each column, and one hash of it."""
    from bayespoint._support.budget import Budget
    from bayespoint.distributed import ordering
    from bayespoint.distributed.blocks import blocks_of, facts_of
    from bayespoint.distributed.session import Session, dask_client

    monkeypatch.setattr(ordering, "CHUNK_BYTES", 4_000)
    X, y = rows()
    X[-1] = 1e9
    with Session(dask_client(), Budget()) as session:
        blocks = blocks_of(*on_cluster(X, y, 5))
        chunks = session.results(ordering.ordered(session, blocks, facts_of(session, blocks)))
    sizes = [len(chunk.label) for chunk in chunks]
    assert len(sizes) == 7
    assert max(sizes) < 1.2 * min(sizes)  # every row is sampled; one each is lost to rounding
    clf = one(kernel="laplacian", n_trees=1)  # whose distances are not lost to rounding
    wanted, found = clone(clf).fit(X, y), fitted(clf, X, y, 5).to_local()
    for array, same in zip(bits(found), bits(wanted), strict=True):
        assert_array_equal(array, same)


def test_defaults_choose_what_they_choose_on_one_machine():
    X, y = rows(260)
    chosen = {"gamma": "held-out", "softness": "held-out", "bias": "auto", "n_trees": "auto",
              "cell_size": 130, "n_landmarks": 0}  # fmt: skip
    wanted = one(**chosen).fit(X, y)
    many = fitted(one(**chosen), X, y)
    assert_allclose(many.settled().gamma, wanted.gamma_, rtol=1e-9)
    assert many.settled().softness == wanted.softness_
    assert_allclose(proba(many, NEW), wanted.predict_proba(NEW), atol=1e-4)


@pytest.mark.parametrize("inference", ["perceptron", "ep"])
def test_methods_that_take_all_rows_at_once(inference, capsys):
    X, y = rows(120)
    clf = one(inference=inference, cell_size="auto", n_draws=12)
    wanted = clone(clf).fit(X, y)
    many = fitted(clf.set_params(verbose=1), X, y)
    assert ("2/2 parts of all draws" in capsys.readouterr().err) == (inference == "perceptron")
    assert_allclose(many.to_local().predict_proba(NEW), wanted.predict_proba(NEW), atol=1e-12)
    assert_allclose(proba(many, NEW), wanted.predict_proba(NEW), atol=1e-12)
    assert many.to_local().n_draws_ == wanted.n_draws_


def test_all_rows_must_fit_into_a_worker(monkeypatch):
    from bayespoint.distributed import whole

    monkeypatch.setattr(whole, "COPIES", 10**9)
    X, y = rows(120)
    with pytest.raises(ValueError, match=r"inference='perceptron' .* takes all rows at once"):
        fitted(one(inference="perceptron", n_draws=10), X, y)


def test_memory_is_checked_for_each_worker_by_its_tasks():
    from types import SimpleNamespace

    from bayespoint.distributed.whole import check_memory

    small, large = ({"name": n, "memory_limit": 1e9, "nthreads": n} for n in (1, 8))
    facts = SimpleNamespace(offsets=[0, 3_000], classes=[0, 1], n_bytes=3_000 * 50 * 4)
    given = SimpleNamespace(cache_bytes=2 * 10**9)

    def check(inference, n_rows, *workers):
        facts.offsets[-1] = n_rows
        settings = SimpleNamespace(inference=inference, inference_reason="given")
        check_memory(SimpleNamespace(workers=lambda: workers), given, facts, settings)

    check("ep", 1_000, small, large)  # few rows need no more, whatever cache_size is
    check("perceptron", 3_000, small)
    check("ep", 3_000, large)  # one task
    with pytest.raises(ValueError, match=r"worker 8 needs .* 864 MB for each of 8 tasks"):
        check("perceptron", 3_000, small, large)
    with pytest.raises(ValueError, match=r"worker 1 needs 2002 MB"):
        check("ep", 10_000, small)


def test_max_time_leaves_a_model_of_the_cells_that_were_swept(monkeypatch, clock):
    from bayespoint.distributed import session

    X, y = rows()
    clock.step = 10.0  # time is over at the first look
    monkeypatch.setattr(session, "LOOK", 0.01)
    with pytest.warns(ConvergenceWarning, match="Raise max_time"):
        many = fitted(one(max_time=1.0), X, y)
    model = many.to_local().predictor_.model
    wanted = one(n_trees=1).fit(X, y).predictor_.model
    assert_array_equal(model.order, wanted.order)  # one tree
    cells = [slice(*ends) for ends in itertools.pairwise(wanted.begin)]
    swept = [np.array_equal(model.tau[:, cell], wanted.tau[:, cell]) for cell in cells]
    left_out = [not np.any(model.tau[:, cell]) for cell in cells]
    assert any(swept)
    assert any(left_out)
    assert_array_equal(swept, np.logical_not(left_out))
    assert np.all(np.isfinite(proba(many, NEW)))


def test_a_tree_that_time_cuts_short_is_left_out_beside_others():
    """As on one machine: its cells that were not swept would say nothing in the mean."""
    from types import SimpleNamespace

    from bayespoint.distributed.inference import ClusterSweeps
    from bayespoint.inference.ep.cells.problem import Sweeping

    swept = [SimpleNamespace(done=lambda done=done: done) for done in (True, False)]
    let_go = []
    session = SimpleNamespace(
        map=lambda name, *_, **__: swept if name == "sweep-cells" else [None],
        wait=lambda *_: False, cancel=let_go.extend,
    )  # fmt: skip
    for spare, gone in ((True, swept), (False, swept[1:])):
        let_go.clear()
        how = Sweeping(tol=1e-3, stop=lambda: True, spare=spare)
        work = ClusterSweeps(session, [None, None], 1, 2, None, 1, how, spare)
        assert work.alone() != spare
        assert let_go == gone


def test_draws_of_perceptrons_and_the_link_have_the_time_that_is_left(monkeypatch, clock):
    from bayespoint.distributed.session import Session

    map_tasks, submit, seconds = Session.map, Session.submit, []

    def mapped(self, name, *others, **more):
        if name == "draw-perceptrons":
            seconds.append(more["seconds"])
            clock.now += 30.0
        return map_tasks(self, name, *others, **more)

    def submitted(self, name, *others):
        seconds.extend(others[-1:] if name == "fit-all-rows" else ())
        return submit(self, name, *others)

    monkeypatch.setattr(Session, "map", mapped)
    monkeypatch.setattr(Session, "submit", submitted)
    X, y = rows(120)
    clf = one(inference="perceptron", n_draws=8)
    fitted(clone(clf).set_params(max_time=100.0), X, y)
    assert 60.0 < seconds[0] <= 90.0  # a tenth is for the link
    assert seconds[1] <= seconds[0] - 30.0
    fitted(clf, X, y)
    assert seconds[2:] == [None, None]


FAULTS = """
import resource
import numpy as np
from bayespoint.distributed.tasks import computing

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(2**17)  # 1 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), computing(faults)())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="concerns glibc")
def test_tasks_that_compute_use_memory_again():
    environ = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}  # as Dask's nanny sets it
    said = subprocess.check_output([sys.executable, "-c", FAULTS], env=environ, text=True)
    without, reused = map(int, said.split())
    assert 10 * reused < without


def test_a_stream_goes_on_partition_by_partition():
    X, y = rows(240)
    given = {"n_trees": 1, "cell_size": "auto"}
    wanted = one(**given)
    for part in np.split(np.arange(len(y)), 3):
        wanted.partial_fit(X[part], y[part], [0, 1])
    import dask.array as da

    parts = da.from_array(X, chunks=(80, -1)), da.from_array(y, chunks=80)
    many = DaskBayesPointClassifier(one(**given)).partial_fit(*parts)
    assert_array_equal(many.to_local().predict_proba(NEW), wanted.predict_proba(NEW))
    assert len(many.to_local().log_predictive_) == 3


def test_a_fit_goes_on_as_a_stream_and_is_saved(tmp_path):
    from bayespoint.io import model_file

    X, y = rows(300)
    many = fitted(one(n_trees=1, cell_size=60), X, y)
    wanted = one(n_trees=1, cell_size=60).fit(X, y)
    with pytest.raises(TypeError, match=r"to_local\(\) instead"):
        pickle.dumps(many)
    model_file.save(tmp_path / "model.bpm", many.to_local())
    again = model_file.load(tmp_path / "model.bpm").classifier
    assert_array_equal(again.predict_proba(NEW), wanted.predict_proba(NEW))
    assert_allclose(many.to_local().feature_importances_, wanted.feature_importances_)
    more = rows(60, seed=2)
    many.partial_fit(*on_cluster(*more, 1))
    wanted.partial_fit(*more)
    assert_array_equal(many.to_local().predict_proba(NEW), wanted.predict_proba(NEW))
    assert isinstance(many.to_local(), BayesPointClassifier)


def test_score_and_predict():
    X, y = rows(300)
    labels = np.array(["no", "yes"])[y]
    many = fitted(one(n_trees=1), X, labels)
    wanted = one(n_trees=1).fit(X, labels)
    at, truth = on_cluster(X, labels, 4)
    found = many.predict(at)
    assert found.dtype == labels.dtype
    assert_array_equal(found.compute(), wanted.predict(X))
    assert many.score(at, truth) == pytest.approx(wanted.score(X, labels))
    assert_allclose(many.decision_function(at).compute(), wanted.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("n_bytes", [3_000, 10**9])
def test_partitions_that_are_answered_together(monkeypatch, n_bytes):
    import dask.array as da

    from bayespoint.distributed import model

    X, y = rows(300)
    many, wanted = fitted(one(n_trees=1), X, y), one(n_trees=1).fit(X, y)
    monkeypatch.setattr(model, "TOGETHER_BYTES", n_bytes)  # of 75 rows, or of all
    found = many.predict_proba(da.from_array(NEW, chunks=((0, 50, 20, 0, 100, 30), -1)))
    assert_allclose(found.compute(), wanted.predict_proba(NEW), atol=OTHER_BLOCKS)
    groups = [key for key in dict(found.__dask_graph__()) if "points-together" in str(key)]
    assert len(groups) == (2 if n_bytes == 3_000 else 1)


def test_parameters_and_clones():
    many = DaskBayesPointClassifier(one(gamma=0.5))
    other = clone(many).set_params(estimator__gamma=0.7)
    assert other.get_params()["estimator__gamma"] == 0.7
    assert many.estimator.gamma == 0.5
