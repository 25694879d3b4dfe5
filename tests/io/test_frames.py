"""Data frames and arrays with gaps: encoded as files are, alone and in pipelines."""

import numpy as np
import pytest
from helpers.refusals import assert_refused
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from bayespoint import BayesPointClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.tables import Table
from bayespoint.io.tables.frames import as_table

GIVEN = {"gamma": 0.5, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
NUMBERS, WORDS = [1.0, 2.0, np.nan, 6.0], ["red", "blue", "red", None]


def test_a_frame_is_encoded_as_a_table():
    pd = pytest.importorskip("pandas")
    table = Table(("size", "colour"), (np.array(NUMBERS), np.array(WORDS, dtype=object)))
    wanted = TableEncoder().fit(table).transform(table)
    for sizes, words in (
        (NUMBERS, WORDS),
        (pd.array([1, 2, None, 6], dtype="Int64"), pd.Categorical(WORDS)),
        (np.array([1, 2, None, 6], dtype=object), pd.array([" red", "blue", "red ", "NA"])),
    ):
        frame = pd.DataFrame({"size": sizes, "colour": words})
        assert_array_equal(TableEncoder().fit_transform(frame), wanted)
        assert TableEncoder().fit(frame).get_feature_names_out().tolist() == [
            "size", "colour=blue", "colour=red",
        ]  # fmt: skip
    assert_array_equal(TableEncoder().fit(table).transform(frame[["colour", "size"]]), wanted)


def test_arrays_have_numbered_columns():
    table = as_table(np.array([[1, "a"], [None, "b"], [True, None]], dtype=object))
    assert table.names == ("x0", "x1")
    assert_array_equal(table.columns[0], [1, np.nan, 1])
    assert table.columns[1].tolist() == ["a", "b", None]
    listed = as_table([[1, "a"], [2.5, "b"]])
    assert_array_equal(listed.columns[0], [1.0, 2.5])
    assert as_table(np.array([["a"], ["b"]])).columns[0].tolist() == ["a", "b"]
    assert as_table(table) is table


def test_durations_are_numbers_and_periods_dates():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "stay": pd.to_timedelta([1.0, None, 3.0], "D"),
            "month": pd.period_range("2023-11", periods=3, freq="M"),
        }
    )
    table = as_table(frame)
    assert_array_equal(table.columns[0], [86400.0, np.nan, 3 * 86400.0])
    names = TableEncoder().fit(frame).feature_names_
    assert names[:3] == ["stay", "month", "month: year"]


def test_odd_data_are_refused():
    cases = [
        ({"data": np.ones(3)}, "two dimensions is needed; got ndarray of 1"),
        ({"data": None}, "two dimensions is needed; got NoneType of 0"),
        ({"data": np.ones((0, 2))}, "no rows of data"),
    ]
    assert_refused(as_table, cases)


def test_the_pipeline_that_the_message_names():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = X[:, 0] > 0
    gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    clf = BayesPointClassifier(**GIVEN)
    words = r"X contains NaN.*make_pipeline\(TableEncoder\(\), BayesPointClassifier\(\)\)"
    with pytest.raises(ValueError, match=words):
        clf.fit(gaps, y)
    with pytest.raises(ValueError, match=words):
        clf.fit(X, y).predict(gaps)
    pipeline = clone(make_pipeline(TableEncoder(), clf))
    assert pipeline.fit(gaps, y).score(X, y) > 0.85


def test_groups_of_an_encoder_for_a_pipeline():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    words = rng.choice(list("abcd"), 60)
    frame = pd.DataFrame({"size": rng.standard_normal(60), "word": words})
    y = (frame["size"] > 0) ^ (frame["word"] > "b")
    encoder = TableEncoder().fit(frame)
    clf = BayesPointClassifier(**GIVEN | {"gamma": "ard"}, feature_groups=encoder.feature_groups_)
    fitted = make_pipeline(encoder, clf).fit(frame, y)[-1]
    assert len(set(fitted.gamma_[1:].round(12).tolist())) == 1
    assert fitted.gamma_.shape == (5,)


def test_numbers_among_words_keep_their_names():
    mixed = np.array([[1.0], [2.0], ["a"], [1.0]], dtype=object)
    encoder = TableEncoder().fit(mixed)
    assert encoder.feature_names_ == ["x0=1", "x0=2", "x0=a"]
    assert_array_equal(encoder.transform(np.array([[1.0], [2.0]])), [[1, 0, 0], [0, 1, 0]])


def test_every_kind_of_gap():
    pd = pytest.importorskip("pandas")
    column = as_table(np.array([[pd.NA], [None], [np.nan], [pd.NaT], [1.0]], dtype=object))
    assert_array_equal(column.columns[0], [np.nan] * 4 + [1.0])


def test_parameters_are_checked_by_fit():
    data = np.array([[1.0], [2.0]])
    for name, value in (("long_tails", "foo"), ("max_categories", "x"), ("max_categories", True)):
        with pytest.raises(ValueError, match=name):
            TableEncoder().set_params(**{name: value}).fit(data)
    TableEncoder(max_categories=np.int64(20)).fit(data)
    with pytest.raises(NotFittedError):
        TableEncoder().transform(data)


def test_numbers_may_be_categories():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"n": [10, 2, 10], "f": [0.5, np.nan, 1.0], "b": [True, False, True]})
    wanted = ["n=10", "n=2", "f=0.5", "f=1", "b=0", "b=1"]
    onehot = [[1, 0, 1, 0, 0, 1], [0, 1, 0, 0, 1, 0], [1, 0, 0, 1, 0, 1]]
    typed = frame.astype("category")
    for encoder, data in (
        (TableEncoder().fit(frame, categorical=["n", "f", "b"]), frame),
        (TableEncoder().fit(typed), typed),
        (TableEncoder().fit(typed), frame),
    ):
        assert encoder.feature_names_ == wanted
        assert encoder.notes_ == []
        assert encoder.transform(data).tolist() == onehot
        assert TableEncoder.from_state(encoder.to_state()).transform(data).tolist() == onehot
    words = pd.DataFrame({"n": ["10", "2", "10"]}, dtype="category")
    assert TableEncoder().fit(words).feature_names_ == ["n=10", "n=2"]
    days = pd.DataFrame({"d": [20230517, 20240618, 20230101]}, dtype="category")
    assert TableEncoder().fit(days, dates=["d"]).feature_names_[:2] == ["d", "d: year"]
    with pytest.raises(ValueError, match="60 different values; at most 50"):
        TableEncoder().fit(pd.DataFrame({"n": range(60)}), categorical=["n"])


def test_names_of_columns_are_checked():
    frame = as_table([["a", 1.0], ["b", 2.0]])
    there = r"column 'nope' is not in X; its columns are 'x0', 'x1'\."
    for named, words in (
        ({"dates": {"nope": "dmy"}}, f"^dates: {there}"),
        ({"dates": ["nope"]}, f"^dates: {there}"),
        ({"categorical": ["x0", "nope"]}, f"^categorical: {there}"),
        ({"categorical": ["X0"]}, "^categorical: .*differ only in case: 'x0'"),
        ({"dates": "x0"}, r"^dates must be a list of names of columns; got 'x0'\."),
        ({"categorical": "x0"}, "^categorical must be a list of names of columns"),
        ({"categorical": None}, "^categorical must be a list of names of columns; got None"),
    ):
        with pytest.raises(ValueError, match=words):
            TableEncoder().fit(frame, **named)


def test_words_in_a_frame_are_pointed_to_the_encoder():
    with pytest.raises(ValueError, match=r"holds words .*'red'.*TableEncoder"):
        BayesPointClassifier(**GIVEN).fit(np.array([["red"], ["blue"]], dtype=object), [0, 1])


def test_dates_and_words_in_a_frame_are_named():
    pandas = pytest.importorskip("pandas")
    days = pandas.to_datetime(["2024-01-01", "2024-02-01"])
    frame = pandas.DataFrame({"day": days, "pay": ["cash", "card"], "x": [1, 2]})
    with pytest.raises(ValueError, match=r"of datetime64.*, .* in columns 'day', 'pay': .*Enc"):
        BayesPointClassifier(**GIVEN).fit(frame, [0, 1])


def test_rows_in_memory_are_counted_from_0():
    """As NumPy does; lines and rows of files are counted as people see them."""
    array = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, np.inf]])
    assert as_table(array).place(2) == "row 2 (counted from 0)"
    with pytest.raises(ValueError, match=r"'x1': the number in row 2 \(counted from 0\) is inf"):
        TableEncoder().fit(array)
