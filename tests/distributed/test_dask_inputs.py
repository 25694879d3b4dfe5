"""What a fit on a cluster takes: arrays and data frames, sparse, uneven and empty, and bad ones."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import odd_inputs
from helpers.clusters import bits, local_cluster, on_cluster, one, rows
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("dask")  # not "distributed", which is this folder where it is missing

import itertools

from bayespoint import BayesPointClassifier
from bayespoint.distributed import DaskBayesPointClassifier
from bayespoint.distributed.blocks import parts_of

X, Y = rows(240)
NEW = rows(60, seed=1)[0]
CLF = {"n_trees": 1, "cell_size": 60}


@pytest.fixture(scope="module", autouse=True)
def client():
    cluster, client = local_cluster(1)
    with cluster, client:
        yield client


def same(many, wanted):
    for found, expected in zip(bits(many.to_local()), bits(wanted), strict=True):
        if sp.issparse(found):
            found, expected = found.toarray(), expected.toarray()
        assert_array_equal(found, expected)


def test_data_frames_with_empty_partitions():
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["label"] = Y
    sizes = [0, 100, 0, 140, 0]
    ends = np.cumsum([0, *sizes])
    parts = [frame.iloc[a:b] for a, b in itertools.pairwise(ends)]
    table = dd.from_map(lambda part: part, parts)
    many = DaskBayesPointClassifier(one(**CLF)).fit(table[list("abcde")], table["label"])
    wanted = one(**CLF).fit(frame[list("abcde")], Y)
    same(many, wanted)
    assert_array_equal(many.feature_names_in_, list("abcde"))
    proba = many.predict_proba(table[list("abcde")])
    assert np.isnan(proba.shape[0])
    assert_allclose(proba.compute(), wanted.predict_proba(frame[list("abcde")]), atol=1e-12)
    with pytest.raises(ValueError, match=r"partition [13] of X: .*feature names"):
        many.predict(table[list("bacde")]).compute()


def in_any_order(part):
    return part.iloc[np.random.default_rng().permutation(len(part))]


def test_labels_stay_with_rows_that_come_in_any_order():
    import dask
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame({"a": np.arange(60.0), "label": np.arange(60)})
    table = dd.from_pandas(frame, npartitions=2).map_partitions(in_any_order, meta=frame)
    matches = [
        np.array_equal(rows["a"], labels)
        for rows, labels, _ in dask.compute(*parts_of(table[["a"]], table["label"]))
    ]
    assert matches == [True, True]
    # A control: divided one by one, as Dask does by default, they do not match.
    apart = dask.compute(table[["a"]].to_delayed(), table["label"].to_delayed())
    assert not any(np.array_equal(rows["a"], labels) for rows, labels in zip(*apart, strict=True))


def test_partitions_that_change_or_differ_are_refused():
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcde")).assign(label=Y)
    table = dd.from_pandas(frame, npartitions=2)
    chance = table.map_partitions(in_any_order, meta=frame)
    clf = DaskBayesPointClassifier(one(**CLF))
    with pytest.raises(ValueError, match=r"partition [01] .* changed when .* persist both first"):
        clf.fit(chance[list("abcde")], chance["label"])
    held = chance.persist()
    clf.fit(held[list("abcde")], held["label"])
    mixed = [frame.iloc[:99, :5], frame.iloc[99:, [1, 0, 2, 3, 4]]]
    labels = [frame["label"].iloc[:99], frame["label"].iloc[99:]]
    order, label = (dd.from_map(lambda part: part, parts) for parts in (mixed, labels))
    with pytest.raises(ValueError, match=r"partition 1 of X has columns \['b', 'a', .* alike"):
        clf.fit(order, label)


def doubled(part):
    return 2 * part


def test_what_a_model_keeps_is_apart_from_later_work_on_its_rows(caplog, monkeypatch):
    """Dask warns where tasks of one name differ, such as optimised ones and those of a model."""
    import dask.dataframe as dd
    import pandas as pd

    monkeypatch.setattr(logging.getLogger("distributed"), "propagate", True)
    at, y = on_cluster(X, Y)
    at, y = at.map_blocks(doubled).map_blocks(abs), y.map_blocks(abs)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(label=Y)
    table = dd.from_pandas(frame, npartitions=2)
    table = table.assign(a=table["a"] + table["b"])
    for rows_given, labels in (at, y), (table[list("abcde")], table["label"]):
        many = DaskBayesPointClassifier(one(**CLF)).fit(rows_given, labels)
        predicted = many.predict(rows_given).compute()
        assert many.score(rows_given, labels) == np.mean(predicted == labels.compute())
        assert len(rows_given.compute()) == len(Y)
    assert not [one for one in caplog.records if "run_spec" in one.getMessage()]


def test_sparse_blocks_of_unknown_sizes():
    import dask.array as da

    S = sp.random(240, 30, 0.2, format="csr", random_state=0)
    ends = [0, 50, 50, 240]
    blocks = [S[a:b] for a, b in itertools.pairwise(ends)]
    from dask import delayed

    parts = [
        da.from_delayed(delayed(block), shape=(np.nan, 30), dtype=float, meta=S[:0])
        for block in blocks
    ]
    array = da.concatenate(parts, allow_unknown_chunksizes=True)
    labels = [
        da.from_delayed(delayed(Y[a:b]), shape=(np.nan,), dtype=int)
        for a, b in itertools.pairwise(ends)
    ]
    y = da.concatenate(labels, allow_unknown_chunksizes=True)
    for kernel, n_landmarks in (("rbf", 0), ("linear", 31)):
        clf = {**CLF, "kernel": kernel, "n_landmarks": n_landmarks}
        many = DaskBayesPointClassifier(one(**clf)).fit(array, y)
        same(many, one(**clf).fit(S, Y))
        wanted = one(**clf).fit(S, Y).predict_proba(S)
        assert_allclose(many.predict_proba(array).compute(), wanted, atol=1e-9)


def delayed_blocks(*blocks):
    """Return a Dask array of blocks as they are."""
    import dask.array as da
    from dask import delayed

    parts = [da.from_delayed(delayed(b), (np.nan, *b.shape[1:]), b.dtype) for b in blocks]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


@pytest.mark.parametrize("given", [CLF, {"inference": "perceptron", "n_draws": 5}])
def test_dense_blocks_beside_sparse_ones(given):
    at = delayed_blocks(X[:100], sp.csr_matrix(X[100:]))
    many = DaskBayesPointClassifier(one(**given)).fit(at, delayed_blocks(Y[:100], Y[100:]))
    wanted = one(**given).fit(sp.csr_matrix(X), Y).predict_proba(X)
    assert_allclose(many.predict_proba(at).compute(), wanted, atol=1e-9)
    assert_allclose(many.to_local().predict_proba(X), wanted, atol=1e-9)


def test_weights_and_single_precision():
    import dask.array as da

    weight = np.random.default_rng(0).integers(0, 3, size=len(Y)).astype(float)
    single = X.astype(np.float32)
    at, y = on_cluster(single, Y, 4)
    weights = da.from_array(weight, chunks=30)  # divided otherwise
    many = DaskBayesPointClassifier(one(**CLF)).fit(at, y, weights)
    wanted = one(**CLF).fit(single, Y, weight)
    same(many, wanted)
    assert many.to_local().support_vectors_.dtype == np.float32
    assert many.score(at, y, weights) == pytest.approx(wanted.score(single, Y, weight))


def with_value(value):
    bad = X.copy()
    bad[150, 3] = value
    return bad


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((with_value(np.nan), Y), r"partition 1 .*NaN.* row 30 of the partition, column 3"),
        ((with_value(np.inf), Y), r"partition 1 .*infinity.* row 30 of the partition, column 3"),
        ((X, np.zeros(240, dtype=int)), r"at least 2 classes .* got 1 class\(es\): \[0\]"),
        ((X, X[:, 0]), r"partition [01] .*Unknown label type"),
        ((X[:0], Y[:0]), r"X has no rows of weight > 0 in any partition"),
    ],
)
def test_bad_rows_are_refused_with_their_place(bad, message):
    import dask.array as da

    at, y = (da.from_array(values, chunks=(120, *values.shape[1:])) for values in bad)
    with pytest.raises(ValueError, match=message):
        DaskBayesPointClassifier(one(**CLF)).fit(at, y)


def fail_in_two(part, block_info=None):
    if block_info and block_info[0]["chunk-location"][0] == 2:
        raise OSError("the disk is gone")
    return part


def test_what_others_raise_has_a_note_of_the_partition():
    at, y = on_cluster(X, Y, 4)
    with pytest.raises(OSError, match="the disk is gone") as raised:
        DaskBayesPointClassifier(one(**CLF)).fit(at.map_blocks(fail_in_two, dtype=float), y)
    assert raised.value.__notes__ == ["It was raised in partition 2."]


def with_gap(rows):
    return np.where(np.arange(rows.size).reshape(rows.shape) == 7, np.nan, rows)


@pytest.mark.parametrize(
    ("at", "y", "message"),
    [
        ((X[:0], X[:200]), (Y[200:], Y[:200]), "partition 0: X has 0 rows and y has 40"),
        ((X[:99, 0], X[99:, 0]), (Y[:99], Y[99:]), r"partition [01] of X, y: .*Expected 2D"),
        (
            (X[:99], sp.coo_matrix(with_gap(X[99:]))), (Y[:99], Y[99:]),
            r"(?s)partition 1 of X, y: .*NaN.* row 1 of the partition, column 2",
        ),
        (
            (X[:99], X[99:]), (Y[:99].astype(object), Y[99:].astype(str).astype(object)),
            r"partition 1 of y has labels \['0', '1'\], others have \[0, 1\]",
        ),
    ],
)  # fmt: skip
def test_partitions_that_do_not_match_are_refused(at, y, message):
    with pytest.raises(ValueError, match=message):
        DaskBayesPointClassifier(one(**CLF)).fit(delayed_blocks(*at), delayed_blocks(*y))


def test_the_table_of_odd_inputs_holds_on_a_cluster():
    """What one machine refuses a cluster refuses, with the same words and the partition."""
    import dask.array as da

    clf = DaskBayesPointClassifier(one(cell_size=60, n_trees=1))

    def fit(rows=odd_inputs.X, y=odd_inputs.Y, weight=None):
        weights = None if weight is None else da.from_array(np.ma.asanyarray(weight), chunks=3)
        at = da.from_array(np.ma.asanyarray(rows), chunks=(3, 2))
        clf.fit(at, da.from_array(np.ma.asanyarray(y), chunks=3), weights)

    for name in ("masked", "dates", "complex", "words", "a gap", "infinity"):
        rows, message = odd_inputs.ROWS[name]
        odd_inputs.holds(lambda r=rows: fit(rows=r), f"partition .*{message}")
    for name in ("masked", "a label missing", "mixed", "quantities"):
        y, message = odd_inputs.LABELS[name]
        odd_inputs.holds(lambda y=y: fit(y=y), f"partition .*{message}")
    for name in ("huge", "masked", "complex", "negative", "NaN"):
        weight, message = odd_inputs.WEIGHTS[name]
        odd_inputs.holds(lambda w=weight: fit(weight=w), f"partition .*{message}")


def test_what_is_no_collection_is_refused():
    import dask.array as da

    at, y = on_cluster(X, Y)
    with pytest.raises(TypeError, match=r"distributed\.DaskBayesPointClassifier"):
        one(**CLF).fit(at, y)
    with pytest.raises(TypeError, match=r"distributed\.DaskBayesPointClassifier"):
        one(**CLF).partial_fit(X, y)
    with pytest.raises(
        TypeError, match="X must be a Dask array, data frame or series; got ndarray"
    ):
        DaskBayesPointClassifier(one(**CLF)).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 partitions and y has 1"):
        DaskBayesPointClassifier(one(**CLF)).fit(at, da.from_array(Y[1:], chunks=-1))
    with pytest.raises(TypeError, match="estimator must be a BayesPointClassifier; got int"):
        DaskBayesPointClassifier(3).fit(at, y)
    for name, value in (("kernel", "precomputed"), ("warm_start", True)):
        clf = BayesPointClassifier().set_params(**{name: value})
        with pytest.raises(ValueError, match=name):
            DaskBayesPointClassifier(clf).fit(at, y)


def test_new_rows_are_checked_where_they_are():
    many = DaskBayesPointClassifier(one(**CLF)).fit(*on_cluster(X, Y))
    at, _ = on_cluster(with_value(np.nan), Y)
    message = r"(?s)partition [0-2] of X: .*NaN.* First found in row \d+ of .* column 3"
    with pytest.raises(ValueError, match=message):
        many.predict(at).compute()
    with pytest.raises(ValueError, match="partition 1: X has 99 rows, y has 98"):
        many.score(delayed_blocks(X[:99], X[99:198]), delayed_blocks(Y[:99], Y[:98]))
    with pytest.raises(ValueError, match="is expecting 5 features"):
        many.predict(on_cluster(X, Y)[0][:, :4]).compute()
