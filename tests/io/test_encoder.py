"""From tables to features: the same way in training and prediction, or a clear error."""

import json
import math

import numpy as np
import pytest

from bayespoint.io.encoder import TableEncoder, UnusableColumnsError
from bayespoint.io.tables import Table, TableError


def text(*values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def table(**columns):
    arrays = [
        text(*c) if any(isinstance(v, str) for v in c) else np.array(c) for c in columns.values()
    ]
    n_rows = len(arrays[0])
    return Table(tuple(columns), tuple(arrays), np.arange(2, n_rows + 2))


TRAIN = table(size=[1.0, 2.0, np.nan, 6.0], colour=["red", "blue", "red", None])


@pytest.fixture
def encoder():
    return TableEncoder().fit(TRAIN)


def test_numbers_are_filled_and_scaled_categories_one_hot(encoder):
    X, notes = encoder.encode(TRAIN)
    filled = np.array([1.0, 2.0, 2.0, 6.0])
    np.testing.assert_allclose(X[:, 0], (filled - filled.mean()) / filled.std())
    assert X[:, 1:].tolist() == [[0, 1], [1, 0], [0, 1], [0, 0]]
    assert encoder.feature_names_ == ["size", "colour=blue", "colour=red"]
    assert encoder.feature_groups_ == ["size", "colour", "colour"]
    assert notes == ["2 missing cells filled in: 2 columns ('size', 'colour')."]


def test_order_is_free_and_others_are_ignored(encoder):
    shuffled = Table(("id", "colour", "size"), (np.arange(4.0), *TRAIN.columns[::-1]))
    X, notes = encoder.encode(shuffled)
    np.testing.assert_array_equal(X, encoder.transform(TRAIN))
    assert any("1 column ('id')" in note for note in notes)


def test_missing_columns_are_named_at_once(encoder):
    with pytest.raises(TableError, match=r"2 columns \('size', 'colour'\) .*are not there"):
        encoder.transform(table(other=[1.0]))


def test_new_categories_and_far_numbers_are_noted(encoder):
    X, notes = encoder.encode(table(size=[1e308, 2.0], colour=["mauve", "blue"]))
    assert X[0, 1:].tolist() == [0, 0]
    assert X[0, 0] == 1e6
    assert any("'mauve'" in note and "1 cell " in note for note in notes)
    assert any("standard deviations" in note for note in notes)


def test_text_in_a_column_of_numbers_is_an_error_with_its_line(encoder):
    with pytest.raises(TableError, match=r"column 'size', line 3: '1,500' is not a number.*point"):
        encoder.transform(table(size=["1", "1,500"], colour=["red", "red"]))
    with pytest.raises(TableError, match=r"(?s)'size', line 3: 'x'.*'height', line 2: '5 ft'"):
        TableEncoder().fit(table(size=[1.0, 2.0], height=[5.0, 6.0])).transform(
            table(size=["1", "x"], height=["5 ft", "6"])
        )
    many = {f"x{i}": [1.0, 2.0] for i in range(30)}
    with pytest.raises(TableError, match=r"'x7', line 2: .* So are 22 more columns\.$"):
        TableEncoder().fit(table(**many)).transform(table(**{name: ["a", "b"] for name in many}))


def test_numbers_for_categories_count_as_their_text():
    encoder = TableEncoder().fit(table(code=["1", "2", "A"], x=[1.0, 2.0, 3.0]))
    assert encoder.transform(table(code=[2.0, 1.0], x=[1.0, 1.0]))[:, :3].tolist() == [
        [0, 1, 0], [1, 0, 0],
    ]  # fmt: skip


def test_what_does_not_vary_is_left_out():
    encoder = TableEncoder().fit(
        table(
            x=[1.0, 2.0], one=[5.0, 5.0], same=["a", "a"], none=[np.nan, np.nan], gap=[3.0, np.nan]
        )
    )
    assert encoder.feature_names_ == ["x"]
    assert "1 column ('none')" in encoder.notes_[0]
    assert "3 columns ('one', 'same', 'gap')" in encoder.notes_[1]
    with pytest.raises(TableError, match="no column is left"):
        TableEncoder().fit(table(one=[5.0, 5.0]))


def test_too_many_categories_name_the_column_and_the_remedy():
    names = table(id=[f"row {i}" for i in range(60)], x=list(map(float, range(60))))
    with pytest.raises(UnusableColumnsError, match=r"(?s)'id': .*60 different values.*drop") as no:
        TableEncoder().fit(names)
    assert list(no.value.reasons) == ["id"]
    assert len(TableEncoder(60).fit(names).feature_names_) == 61


def test_infinite_numbers_are_listed_with_other_columns_of_no_use():
    fine, endless = list(map(float, range(60))), [*map(float, range(59)), np.inf]
    names = [f"row {i}" for i in range(60)]
    with pytest.raises(UnusableColumnsError, match=r"'a': the number in line 61 is inf") as no:
        TableEncoder().fit(table(a=endless, x=fine, id=names, b=endless))
    assert list(no.value.reasons) == ["a", "id", "b"]
    encoder = TableEncoder().fit(table(x=fine))
    assert encoder.transform(table(x=fine, other=endless)).shape == (60, 1)
    with pytest.raises(TableError, match=r"column 'x': the number in line 61 is infinite"):
        encoder.transform(table(x=endless))


def test_two_features_of_one_name_are_refused():
    days = [f"{day}.5.{2020 + day % 3}" for day in range(1, 31)]
    plain = {"sold": days, "x": list(map(float, range(30)))}
    year = {"sold: year": [2020.0 + day % 4 for day in range(30)]}
    assert "sold: year" in TableEncoder().fit(table(**plain)).feature_names_
    for both, later in ((plain | year, "sold: year"), (year | plain, "sold")):
        with pytest.raises(UnusableColumnsError, match="also the name of a feature") as no:
            TableEncoder().fit(table(**both))
        assert list(no.value.reasons) == [later]
    words = {"sold: year": ["odd", "even"] * 15}  # their features have other names, but one width
    with pytest.raises(UnusableColumnsError, match="'sold: year' is also"):
        TableEncoder().fit(table(**plain, **words))


def test_one_bad_cell_among_numbers_is_shown():
    cells = [str(i) for i in range(80)]
    cells[33] = "oops"
    with pytest.raises(TableError, match=r"79 of 80 cells are numbers, but not 'oops' \(line 35\)"):
        TableEncoder().fit(table(x=cells))
    few = TableEncoder().fit(table(x=["1", "2", "x"]))
    assert "'x' (line 4)" in few.notes_[0]


FIX = "If the column is numerical, correct {}, or empty {} where the value is not known."


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({5: "oops"}, "99 of 100 cells are numbers, but not 'oops' (line 7). " + FIX),
        ({5: "12.3.4", 9: "o.1"}, "but not '12.3.4' (line 7), 'o.1' (line 11). " + FIX),
        (
            dict.fromkeys(range(9, 30), "-"),
            "79 of 100 cells are numbers, but not '-' (line 11). " + FIX,
        ),
        ({i: f"no {i}" for i in range(5)}, "'no 3' (line 5), 'no 4' (line 6). " + FIX),
        (
            {i: f"no {i}" for i in range(30)},
            "70 of 100 cells are numbers, but not 'no 0' (line 2).",
        ),
    ],
    ids=["one", "two", "dashes", "five", "many"],
)
@pytest.mark.parametrize("sign", ["", " °C"])
def test_few_bad_cells_are_named_and_can_be_corrected(other, words, sign):
    """Also beside numbers with decimal commas and units."""
    cells = [f"{i},25{sign}" if sign else f"{i}.25" for i in range(100)]
    for row, text in other.items():
        cells[row] = text
    with pytest.raises(UnusableColumnsError) as caught:
        TableEncoder().fit(table(x=cells))
    forms = ("this cell", "it") if len(other) == 1 else ("these cells", "them")
    said = str(caught.value)
    assert words.format(*forms) in said
    assert ("If the column is numerical" in said) == (FIX in words)
    assert said.endswith("\nChange them, or leave them out, such as X.drop(columns=['x']).")
    encoder = TableEncoder(max_categories=200).fit(table(x=cells))
    assert words.format(*forms) in encoder.notes_[0]


def test_words_are_no_numbers_with_bad_cells():
    cells = [f"word {i % 40}" for i in range(60)] + ["1", "2"]
    assert TableEncoder().fit(table(x=cells)).notes_ == []


def test_a_bad_cell_in_new_rows_may_be_emptied(encoder):
    with pytest.raises(TableError, match=r"'oops' is not a number.*leave it empty if the number"):
        encoder.transform(table(size=["1", "oops"], colour=["red", "red"]))


def test_a_name_in_another_case_is_pointed_out():
    encoder = TableEncoder().fit(table(Size=[1.0, 2.0]))
    with pytest.raises(TableError, match=r"'Size'.* differ only in case: 'size'"):
        encoder.transform(table(size=[1.0]))


@pytest.mark.parametrize("factor", [1e308, 1e-300, 5e-324 * 8, 1e200])
def test_extreme_numbers(factor):
    column = np.array([-1.0, 0.5, np.nan, 1.0]) * factor
    X = TableEncoder().fit(Table(("x",), (column,))).transform(Table(("x",), (column,)))
    plain = np.array([-1.0, 0.5, 0.5, 1.0])
    np.testing.assert_allclose(X[:, 0], (plain - plain.mean()) / plain.std(), rtol=0.2)
    assert np.isfinite(X).all()


def test_svmlight_leaves_out_zeros_of_its_own_columns_only(encoder):
    fitted = TableEncoder().fit(table(x1=[0.0, 1.0], x2=[1.0, 3.0]))
    sparse = Table(("label", "x2"), (np.ones(1), np.ones(1)), np.array([1]), fill=0.0)
    assert fitted.transform(sparse).tolist() == [[-1.0, -1.0]]
    with pytest.raises(TableError, match="'size', 'colour'"):
        encoder.transform(sparse)


def test_state_goes_through_json(encoder):
    state = json.loads(json.dumps(encoder.to_state(), allow_nan=False))
    again = TableEncoder.from_state(state)
    np.testing.assert_array_equal(again.transform(TRAIN), encoder.transform(TRAIN))
    assert again.to_state() == encoder.to_state()
    assert again.text_columns == ["colour"]


def changed(path, value):
    state = TableEncoder().fit(TRAIN).to_state()
    place = state
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return state


ODD = [
    (["max_categories"], "50"), (["max_categories"], 1), (["max_categories"], True),
    (["max_categories"], 10**9), (["columns"], []), (["columns"], {}), (["columns", 0], "x"),
    (["columns", 0, "scale"], 0.0), (["columns", 0, "scale"], -1.0),
    (["columns", 0, "mean"], None),
    (["columns", 0, "median"], math.nan), (["columns", 0, "scale"], math.inf),
    (["columns", 0, "mean"], True), (["columns", 0, "mean"], "1"), (["columns", 0, "name"], 3),
    (["columns", 0, "name"], " "), (["columns", 0, "name"], "colour"),
    (["columns", 0, "kind"], "x"),
    (["columns", 0, "extra"], 1), (["columns", 1, "values"], []),
    (["columns", 1, "values"], "ab"),
    (["columns", 1, "values"], ["b", "a"]), (["columns", 1, "values"], ["a", "a"]),
    (["columns", 1, "values"], [1, 2]),
    (["columns", 1, "values"], [f"{i:03}" for i in range(51)]),
    (["notes"], [1]), (["notes"], KeyError), (["columns", 0, "mean"], KeyError), (["new"], 1),
    (["columns", 0, "mean"], 10**400), (["long_tails"], KeyError),
    (["columns", 0, "knots"], KeyError), (["columns", 0, "places"], [0.5]),
    (["columns", 1, "knots"], []), (["columns", 0, "notation"], [",", ","]),
    (["columns", 0, "notation"], ".,"), (["columns", 0, "notation"], [[], ""]),
    (["columns", 0, "kind"], []), (["columns", 0, "ends"], [1.0]),
    (["columns", 0, "ends"], [2.0, 1.0]), (["columns", 0, "ends"], [0.0, math.inf]),
    (["columns", 0, "ends"], [0, 1]), (["columns", 0, "ends"], None),
    (["unnamed"], None), (["unnamed"], ["size"]), (["unnamed"], [1, 2]), (["unnamed"], "size"),
    (["unnamed"], ["size", "colour", "size"]),
]  # fmt: skip


def why_not(state):
    """What is said of a state that is refused."""
    try:
        TableEncoder.from_state(state)
    except ValueError as error:
        return str(error)
    return "it was taken"


def test_odd_states_are_refused():
    assert why_not(TableEncoder().fit(TRAIN).to_state()) == "it was taken"
    for path, value in ODD:
        reason = why_not(changed(path, value))
        assert "stored encoder" in reason or "max_categories" in reason, f"{path}: {reason}"


def test_states_of_older_files_have_no_notation():
    older = changed(["columns", 0, "notation"], KeyError)
    read = TableEncoder.from_state(older)
    assert read.to_state() == TableEncoder().fit(TRAIN).to_state()


def test_states_of_older_files_have_no_ends():
    read = TableEncoder.from_state(changed(["columns", 0, "ends"], KeyError))
    assert read.columns_[0].ends == ()
    assert not any("range" in note for note in read.notes_on(table(size=[1e3], colour=["red"])))


def test_numbers_far_outside_the_training_range_are_counted():
    """Farther than the range is wide; the state keeps it, and missing ones do not count."""
    train = table(old=[20.0, 70.0], long=[0.0, 1.0], flag=[0.0, 1.0])
    encoder = TableEncoder.from_state(TableEncoder().fit(train).to_state())
    new = table(old=[120.0, -30.0, 121.0, -31.0, np.nan], long=[1.0] * 5, flag=[1, 0, 1, 0, 9.0])
    wanted = (
        "3 numbers farther outside the range of training than it is wide: 'old' (2), 'flag' (1)"
    )
    assert [n for n in encoder.notes_on(new) if "range" in n] == [f"{wanted}; check the unit."]
    both = encoder.remarks_on(new) + encoder.remarks_on(new)
    assert any("6 numbers" in n and "'old' (4)" in n for n in both.texts("the first 2 rows"))
    assert not any("range" in n for n in encoder.notes_on(train))


@pytest.mark.parametrize("far", [1.7e308, 1e-308])
def test_ranges_that_would_overflow(far):
    encoder = TableEncoder().fit(table(x=[-far, 0.0, far]))
    assert not any("range" in n for n in encoder.notes_on(table(x=[far, -far, 1e-320])))
    notes = encoder.notes_on(table(x=[1.0]))
    assert any("range" in n or "deviations" in n for n in notes) == (far < 1)


def test_states_that_are_no_objects():
    for state in (None, [], "x", 3):
        with pytest.raises(ValueError, match="stored encoder"):
            TableEncoder.from_state(state)


def test_numbers_that_name_categories_may_have_a_comma():
    codes = table(x=["1,5", "2", "3,25"])
    encoder = TableEncoder().fit(codes, categorical=["x"])
    assert encoder.feature_names_ == ["x=1,5", "x=2", "x=3,25"]
    assert encoder.notes_ == []
