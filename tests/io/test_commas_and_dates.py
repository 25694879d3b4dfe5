"""Texts that are numbers or dates: decimal commas, thousands separators, days and times."""

import json

import numpy as np
import pytest

from bayespoint.io.encoder import TableEncoder
from bayespoint.io.encoder.dates import orders_of, parse_date
from bayespoint.io.tables import Table, TableError, read_table
from bayespoint.io.tables.notation import notations_of


def table(**columns):
    arrays = [
        np.array(c, dtype=object if isinstance(c[0], str) else None) for c in columns.values()
    ]
    return Table(tuple(columns), tuple(arrays), np.arange(2, len(arrays[0]) + 2))


def same(one, other):
    """Whether two tables become the same numbers, each by an encoder of its own."""
    one, other = (TableEncoder().fit(t).transform(t) for t in (one, other))
    return one.shape == other.shape and np.allclose(one, other)


# ---------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("cells", "meant"),
    [
        (["1,5", "2", "-3,25"], [1.5, 2, -3.25]),
        (["1.234,5", "7", "1.234.567"], [1234.5, 7, 1234567]),
        (["1,234.5", "7", "999"], [1234.5, 7, 999]),
        (["1 234,5", "7\u00a0000", "3"], [1234.5, 7000, 3]),
        (["1'234.5", "1’000’000", "3"], [1234.5, 1e6, 3]),
        (["0,125", "1,250", "2"], [0.125, 1.25, 2]),  # no thousand begins with 0
        (["1,5E-03", "2E1", ",5"], [0.0015, 20, 0.5]),
        (["15 %", "7%", "-2,5 %"], [15, 7, -2.5]),
        (["$1,200.50", "$ 7", "3"], [1200.5, 7, 3]),
        (["1.200,50\u00a0€", "7 €", "8 €"], [1200.5, 7, 8]),
        (["37,5 °C", "38°C", "39"], [37.5, 38, 39]),
        (["37,5 °", "38°", "-4,0 º"], [37.5, 38, -4]),  # the last sign is that of ordinals
        (["37,5 \u2103", "38 °C", "36,6\u00a0˚C"], [37.5, 38, 36.6]),
        (["98.6 °F", "100 °F", "99"], [98.6, 100, 99]),
        (["1,000,000", "12,345", "999"], [1e6, 12345, 999]),
        (["1,000", "2,500", "999"], [1000, 2500, 999]),  # may be either, and a note says so
    ],
)
def test_numbers_as_people_write_them(cells, meant):
    assert same(table(x=cells), table(x=np.array(meant, dtype=float)))


@pytest.mark.parametrize(
    "cells",
    [
        ["1,5", "2.5"],
        ["1,5", "x"],
        ["1.2.3", "1"],
        ["12,34,567", "1"],
        ["5%", "5$"],
        ["%", "1%"],
        ["5 kg", "6 kg"],
        ["1% of 2", "1%"],
        ["37 °C", "98 °F"],
        ["37 °C", "37 °"],
    ],
)
def test_what_is_no_number_in_one_notation_is_none(cells):
    assert notations_of(cells) == []
    assert TableEncoder().fit(table(x=cells)).feature_names_[0].startswith("x=")


def test_commas_in_doubt_follow_other_columns_or_are_noted():
    doubtful = ["1,000", "2,500", "999"]
    alone = TableEncoder().fit(table(x=doubtful))
    assert any("may be decimal marks" in note for note in alone.notes_)
    beside = TableEncoder().fit(table(x=doubtful, y=["0,5", "1", "2"]))
    assert beside.columns_[0].mean == pytest.approx((1 + 2.5 + 999) / 3)
    told = TableEncoder().fit(table(x=doubtful), decimal=",")
    assert told.columns_[0].mean == pytest.approx((1 + 2.5 + 999) / 3)
    mixed = TableEncoder().fit(table(x=["0,5", "1", "2"], y=[1.234, 2.0, 3.0]))
    assert any("'y'" in note and "thousands" in note for note in mixed.notes_)


def test_new_rows_are_read_as_those_of_training():
    encoder = TableEncoder().fit(table(x=["1.234,5", "7", "1.000"]))
    assert encoder.text_columns == ["x"]  # else 1.234 would be read as a number
    encoder = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state())))
    plain = encoder.transform(table(x=[1234.0, 7.0]))
    np.testing.assert_array_equal(encoder.transform(table(x=["1.234", "7"])), plain)
    usual = TableEncoder().fit(table(x=[1.0, 2.0]))
    np.testing.assert_array_equal(  # other files may be from elsewhere
        usual.transform(table(x=["1,5", "2"])), usual.transform(table(x=[1.5, 2.0]))
    )
    percent = TableEncoder().fit(table(x=["10 %", "20 %", "25 %"]))
    assert any("signs of units" in note and "'x'" in note for note in percent.notes_)
    percent = TableEncoder.from_state(json.loads(json.dumps(percent.to_state())))
    same_cells = (["15 %", "1%"], ["15", "1"], [15.0, 1.0])
    first, *others = (percent.transform(table(x=cells)) for cells in same_cells)
    for other in others:
        np.testing.assert_array_equal(other, first)
    with pytest.raises(TableError, match=r"'1,000' is not a number.*without thousands"):
        usual.transform(table(x=["1,000", "2"]))
    commas = TableEncoder().fit(table(x=["1,5", "2", "3,25"]))
    with pytest.raises(TableError, match=r"'1.500' is not a number.*decimal comma, as in training"):
        commas.transform(table(x=["1.500", "2"]))


def test_the_decimal_mark_of_a_file_can_be_told(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("1,5;2.000;2.5;a\n2;3;1;b\n", encoding="utf-8")
    found = read_table(path, decimal=",", header=False, text=["x1"])
    assert [column.tolist() for column in found.columns] == [
        [1.5, 2], ["2.000", "3"], ["2.5", "1"], ["a", "b"],
    ]  # fmt: skip
    assert TableEncoder().fit(found, decimal=",").text_columns == ["x0", "x1", "x2", "x3"]
    with pytest.raises(ValueError, match="decimal"):
        TableEncoder().fit(found, decimal=";")


def test_windows_1252_is_read_with_a_note(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes("Größe,Stil\n1,„schön“\n2,5 €\n".encode("cp1252"))
    found = read_table(path)
    assert found.names[0] == "Größe"
    assert found.columns[1].tolist() == ["„schön“", "5 €"]
    assert "Windows-1252" in found.notes[0]
    path.write_text("Größe,Stil\n1,„schön“\n2,5 €\n", encoding="utf-8")
    assert read_table(path).notes == ()


# ---------------------------------------------------------------------- dates

DATES = [
    ("2023-05-17", "ymd", "2023-05-17"), ("2023/5/7 4:05", "ymd", "2023-05-07T04:05"),
    ("2023-05-17T14:30:15.123456Z", "ymd", "2023-05-17T14:30:15"),
    ("2023-05-17 14:30:15+02:00", "ymd", "2023-05-17T14:30:15"), ("2023-05", "ymd", "2023-05-01"),
    ("17.05.2023", "dmy", "2023-05-17"), ("7.5.23 14:30", "dmy", "2023-05-07T14:30"),
    ("17/05/1969", "dmy", "1969-05-17"), ("17-May-99", "dmy", "1999-05-17"),
    ("17 september 2023", "dmy", "2023-09-17"), ("05/17/2023 2:30 PM", "mdy", "2023-05-17T14:30"),
    ("05/17/2023 12:30 a.m.", "mdy", "2023-05-17T00:30"), ("May 17, 2023", "mdy", "2023-05-17"),
    ("14:30", "time", "1970-01-01T14:30"), ("9999-12-31", "ymd", "9999-12-31"),
]  # fmt: skip
NO_DATES = [
    "2023-02-30", "31.04.2023", "13/13/2023", "17.5", "2023", "20230517", "1.2.3.4", "25:00",
    "14:30 PM", "17 Foo 2023", "2023-05-17T", "12-34", "1234-05", "K-00017", "10/2023/5",
]  # fmt: skip


def test_dates_as_people_write_them():
    for text, order, meant in DATES:
        assert order in orders_of([text]), text
        assert np.datetime64(parse_date(text, order)) == np.datetime64(meant), text
    for text in NO_DATES:
        assert orders_of([text]) == [], text


def test_one_day_above_12_tells_the_order_of_all():
    assert orders_of(["03/04/2023", "13/04/2023"]) == ["dmy"]
    assert orders_of(["03/04/2023", "04/13/2023"]) == ["mdy"]
    assert orders_of(["03/04/2023", "2023-04-03"]) == []
    doubtful = table(d=["03/04/2023", "05/04/2023", "03/09/2023"])
    by_day, by_month = (
        TableEncoder().fit(doubtful),
        TableEncoder().fit(doubtful, dates={"d": "mdy"}),
    )
    assert any("--dates 'd=mdy'" in note for note in by_day.notes_)
    assert [e.columns_[0].order for e in (by_day, by_month)] == ["dmy", "mdy"]
    assert not any("mdy" in note for note in by_month.notes_)


def test_parts_of_dates_take_part_where_they_vary():
    hours = np.datetime64("2023-05-17T00:00") + 300 * np.arange(500)
    encoder = TableEncoder().fit(table(d=hours.astype(str).tolist()))
    parts = ["d"] + [f"d: {p} ({f})" for p in ("month", "weekday", "hour") for f in ("sin", "cos")]
    assert encoder.feature_names_ == parts  # one year
    assert encoder.feature_groups_ == ["d", *np.repeat(["d: month", "d: weekday", "d: hour"], 2)]
    X = encoder.transform(table(d=hours.astype(str).tolist()))
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(X.std(axis=0), 1)
    # Midnight is near 23 o'clock, Sunday is near Monday; a week later is the same weekday.
    days = encoder.transform(
        table(d=["2023-06-04 23:00", "2023-06-05 00:00", "2023-06-12 00:00", "2023-06-05 12:00"])
    )
    near, far = (np.linalg.norm(days[i, 5:] - days[1, 5:]) for i in (0, 3))
    assert near < 0.2 * far
    np.testing.assert_allclose(days[1, 3:5], days[2, 3:5])
    assert days[2, 0] > days[1, 0]


def test_gaps_other_orders_and_words_in_new_dates():
    train = table(d=["17.05.2023", "18.06.2024", "01.01.2023"])
    encoder = TableEncoder().fit(train)
    encoder = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state())))
    new = encoder.transform(table(d=["18.06.2024", "2024-06-18"]))  # as data frames have them
    np.testing.assert_array_equal(new[0], new[1])
    X, notes = encoder.encode(table(d=["18.06.2024", None]))
    assert np.isfinite(X).all()
    assert notes == ["1 missing cell filled in: 1 column ('d')."]
    with pytest.raises(TableError, match=r"'d', line 3: '31.02.2023' is not a date .day, month, y"):
        encoder.transform(table(d=["18.06.2024", "31.02.2023"]))
    named = table(d=np.array([20230517.0, 20240618.0, 20230101.0]))
    assert TableEncoder().fit(named).feature_names_ == ["d"]
    assert same_dates(named, train)
    with pytest.raises(TableError, match=r"'d', line 4: 'soon' is not a date"):
        TableEncoder().fit(table(d=["17.05.2023", "18.06.2024", "soon"]), dates=["d"])


def same_dates(one, other):
    one, other = (TableEncoder().fit(t, dates=["d"]).transform(t) for t in (one, other))
    return np.array_equal(one, other)


def test_data_frames_have_dates_and_decimals():
    pandas = pytest.importorskip("pandas")
    days = pandas.to_datetime(["2023-05-17 14:00", None, "2024-06-18 15:00", "2023-01-01 00:00"])
    frame = pandas.DataFrame(
        {"d": days, "zone": days.tz_localize("UTC"), "x": ["1,5", "2", "3,25", "4"]}
    )
    encoder = TableEncoder().fit(frame)
    assert encoder.feature_names_[:2] == ["d", "d: year"]
    assert encoder.feature_names_[-1] == "x"
    X = encoder.transform(frame)
    half = (X.shape[1] - 1) // 2
    np.testing.assert_array_equal(X[:, :half], X[:, half:-1])


def test_plain_numbers_in_text_of_a_data_frame_are_numbers():
    """Files of text are read so before; in some of their rows, words look like numbers."""
    pandas = pytest.importorskip("pandas")
    numbers = [148.41, 3.1, np.nan, 1.25, *range(60)]
    cells = [None if np.isnan(n) else f"{n:.2f}" for n in numbers]
    frame = pandas.DataFrame({"w": cells, "v": np.arange(64.0)})
    encoder = TableEncoder().fit(frame)
    assert encoder.notes_ == ["numbers in text, read as such: 1 column ('w')."]
    plain = frame.assign(w=numbers)
    np.testing.assert_array_equal(encoder.transform(frame), TableEncoder().fit_transform(plain))
    np.testing.assert_array_equal(encoder.transform(frame), encoder.transform(plain))
    few = TableEncoder().fit(frame[:3], categorical=["w"])
    assert few.feature_names_ == ["w=148.41", "w=3.10", "v"]
    codes = table(code=["1", "2", "1", "A"], x=[1.0, 2.0, 3.0, 4.0])
    some = TableEncoder().fit(codes.rows(slice(3)))
    assert some.feature_names_ == ["code=1", "code=2", "x"]
    assert some.transform(codes)[3, :2].tolist() == [0, 0]


def test_only_points_that_were_text_may_be_thousands():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": ["0,5", "1", "2"], "y": ["1.234", "2", "3"], "w": [1.5, 2, 3]})
    points = [note for note in TableEncoder().fit(frame).notes_ if "thousands" in note]
    assert len(points) == 1
    assert points[0].startswith("points were read as decimal marks in 1 column ('y');")
    assert not any("points" in note for note in TableEncoder().fit(frame[["x", "w"]]).notes_)


def test_odd_states_of_dates_are_refused():
    state = TableEncoder().fit(table(d=["2023-05-17", "2024-06-18", "2023-01-01"])).to_state()
    TableEncoder.from_state(state)
    column = state["columns"][0]
    for change in (
        {"order": "ydm"}, {"order": []}, {"numbers": []}, {"numbers": {}}, {"more": 1},
        {"numbers": column["numbers"][::-1]}, {"numbers": [column["numbers"][0]] * 2},
        {"numbers": [column["numbers"][0] | {"name": "x"}]},
        {"numbers": [column["numbers"][0] | {"name": []}]},
        {"numbers": [column["numbers"][0] | {"scale": 0.0}]},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="stored encoder"):
            TableEncoder.from_state(state | {"columns": [column | change]})
