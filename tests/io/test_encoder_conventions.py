"""`TableEncoder` keeps scikit-learn's conventions about names and numbers of columns."""

import json
import pickle

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.tables import Table

NAMES = ["size", "empty", "colour", "sold"]
DAYS = ["2024-01-05", "2024-02-07", "2024-03-09", "2024-04-01"]
COLUMNS = [[1.0, 2.0, np.nan, 6.0], [None] * 4, ["red", "blue", "red", None], DAYS]


@pytest.fixture
def frame():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(dict(zip(NAMES, COLUMNS, strict=True)))


def test_names_of_a_data_frame(frame):
    """All of them, also of columns that are left out."""
    encoder = TableEncoder().fit(frame)
    assert encoder.n_features_in_ == 4
    assert encoder.feature_names_in_.tolist() == NAMES
    assert encoder.feature_names_in_.dtype == object
    pipeline = make_pipeline(encoder)
    assert (pipeline.n_features_in_, pipeline.feature_names_in_.tolist()) == (4, NAMES)
    encoder.fit(frame.to_numpy(dtype=object))
    assert encoder.n_features_in_ == 4
    assert not hasattr(encoder, "feature_names_in_")
    assert not hasattr(TableEncoder().fit(frame.set_axis(range(4), axis=1)), "feature_names_in_")
    table = Table(("size", "old"), (np.array([1.0, 2.0]), np.array([3.0, 1.0])))
    assert TableEncoder().fit(table).feature_names_in_.tolist() == ["size", "old"]


def test_an_encoder_from_a_file_knows_the_columns_it_uses(frame):
    encoder = TableEncoder().fit(frame)
    loaded = TableEncoder.from_state(encoder.to_state())
    assert loaded.feature_names_in_.tolist() == ["size", "colour", "sold"]
    assert loaded.n_features_in_ == 3
    np.testing.assert_array_equal(loaded.transform(frame), encoder.transform(frame))
    assert pickle.loads(pickle.dumps(encoder)).feature_names_in_.tolist() == NAMES


def test_names_of_features(frame):
    encoder = TableEncoder().fit(frame)
    names = encoder.feature_names_
    assert encoder.get_feature_names_out().tolist() == names
    assert encoder.get_feature_names_out(NAMES).tolist() == names
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        encoder.get_feature_names_out(NAMES[::-1])
    encoder.fit(frame.to_numpy(dtype=object))
    assert encoder.get_feature_names_out()[:3].tolist() == ["x0", "x2=blue", "x2=red"]
    assert encoder.get_feature_names_out(NAMES).tolist() == names
    with pytest.raises(ValueError, match="length equal to number of features"):
        encoder.get_feature_names_out(NAMES[:3])


def test_names_of_features_of_columns_that_numbers_name():
    """Names given are used by their places, whatever the table called its columns."""
    pd = pytest.importorskip("pandas")
    for numbers in ([0, 1], [7, 3]):
        frame = pd.DataFrame({numbers[0]: [1.0, 2.0, 4.0], numbers[1]: ["a", "b", "a"]})
        encoder = TableEncoder().fit(frame)
        again = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state())))
        for one in (encoder, again, pickle.loads(pickle.dumps(encoder))):
            assert one.get_feature_names_out(["p", "q"]).tolist() == ["p", "q=a", "q=b"]
            names = one.get_feature_names_out().tolist()
            assert names == [f"{numbers[0]}", f"{numbers[1]}=a", f"{numbers[1]}=b"]


def test_an_encoder_of_an_array_is_the_same_from_a_file(frame):
    array = frame.to_numpy(dtype=object)
    encoder = TableEncoder().fit(array)
    loaded = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state())))
    assert loaded.to_state() == encoder.to_state()
    assert loaded.n_features_in_ == 4
    assert not hasattr(loaded, "feature_names_in_")
    names = encoder.get_feature_names_out(NAMES).tolist()
    assert loaded.get_feature_names_out(NAMES).tolist() == names
    np.testing.assert_array_equal(loaded.transform(array), encoder.transform(array))
    with pytest.raises(ValueError, match="expecting 4 features"):
        loaded.transform(array[:, :3])


def test_older_files_do_not_know_the_columns_of_an_array(frame):
    """Only those that are used; names of all may be given, and any number of columns is taken."""
    array = frame.to_numpy(dtype=object)
    encoder = TableEncoder().fit(array)
    state = encoder.to_state()
    del state["unnamed"]
    loaded = TableEncoder.from_state(state)
    assert not hasattr(loaded, "n_features_in_")
    assert not hasattr(loaded, "feature_names_in_")
    names = encoder.get_feature_names_out(NAMES).tolist()
    assert loaded.get_feature_names_out(NAMES).tolist() == names
    assert loaded.get_feature_names_out().tolist() == encoder.feature_names_
    with pytest.raises(ValueError, match=r"no name for 1 column \('x3'\)"):
        loaded.get_feature_names_out(NAMES[:3])
    np.testing.assert_array_equal(loaded.transform(array), encoder.transform(array))
    assert loaded.encode(array)[1] == encoder.encode(array)[1]
    assert TableEncoder.from_state(loaded.to_state()).to_state() == state


def test_columns_of_a_file_may_have_the_names_that_arrays_give():
    for names in (("x1", "x0"), ("x0", "x1")):
        encoder = TableEncoder().fit(Table(names, (np.array([1.0, 2.0]), np.array([3.0, 1.0]))))
        state = encoder.to_state()
        assert TableEncoder.from_state(state).feature_names_in_.tolist() == list(names)
        del state["unnamed"]  # an older file, which says so only by their order
        older = TableEncoder.from_state(state)
        assert hasattr(older, "feature_names_in_") == (names == ("x1", "x0"))
        assert older.get_feature_names_out(names).tolist() == encoder.feature_names_


def test_results_as_data_frames(frame):
    encoder = TableEncoder().set_output(transform="pandas")
    found = encoder.fit_transform(frame.set_index(frame.index + 7))
    assert list(found.columns) == encoder.feature_names_
    assert found.index.tolist() == [7, 8, 9, 10]
    parts = ColumnTransformer([("part", encoder, ["size", "colour"])], remainder="drop")
    parts.set_output(transform="pandas")
    found = parts.fit_transform(frame)
    assert list(found.columns) == ["part__size", "part__colour=blue", "part__colour=red"]


def test_wrappers_of_pipelines_know_the_columns(frame):
    fixed = {"gamma": 0.5, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
    model = make_pipeline(TableEncoder(), BayesPointClassifier(**fixed))
    rejecting = RejectingClassifier(model, coverage=0.5, cv=2)
    rejecting.fit(frame.loc[[0, 1, 2, 3] * 3], [0, 1, 0, 1] * 3)
    assert rejecting.feature_names_in_.tolist() == NAMES


def test_arrays_of_another_width_are_refused(frame):
    array = frame.to_numpy(dtype=object)
    encoder = TableEncoder().fit(array)
    for wrong in (array[:, :3], np.column_stack([array, array[:, 0]])):
        for method in (encoder.transform, encoder.encode):
            with pytest.raises(ValueError, match="expecting 4 features"):
                method(wrong)
    more = TableEncoder().fit(frame).transform(frame[NAMES[::-1]].assign(more=1))
    np.testing.assert_array_equal(more, encoder.transform(array))  # by name: in any order


@pytest.mark.parametrize(
    "check",
    [
        checks.check_n_features_in,
        checks.check_n_features_in_after_fitting,
        checks.check_transformer_get_feature_names_out,
        checks.check_transformer_get_feature_names_out_pandas,
        checks.check_set_output_transform,
        checks.check_dtype_object,
        checks.check_transformer_general,
    ],
)
def test_conformance(check):
    """Those checks of scikit-learn that speak of names and kinds of columns."""
    check("TableEncoder", TableEncoder())
