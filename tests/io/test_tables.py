"""Tables from files: what is read, what is refused, and what the messages say."""

import gzip
import io
import re
import sys
import zipfile

import numpy as np
import pytest

from bayespoint.io.tables import (
    Table,
    TableError,
    open_chunks,
    printable,
    read_table,
    safe_cell,
    write_csv,
)
from bayespoint.io.tables import text as text_module


def read(folder, data, name="data.csv", **options):
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_table(path, **options)


def why_not(folder, data, name):
    """What is said of data that cannot be read."""
    try:
        read(folder, data, name)
    except TableError as error:
        return str(error)
    return "it was read"


def assert_not_read(folder, cases, name):
    for data, words in cases:
        reason = why_not(folder, data, name)
        assert re.search(words, reason), f"{data[:40]!r}: {reason}"


def values(table):
    return [
        [None if v is None or v != v else v for v in column.tolist()] for column in table.columns
    ]


@pytest.mark.parametrize(
    "data",
    [
        "a,b\n1.5,red\n,blue\n", "a;b\r\n1.5;red\r\nNA;blue", "a\tb\r1.5\tred\r?\tblue\r\r",
        "a|b\n 1.5 | red\nnan|blue\n", '\ufeff"a", "b"\n"1.5", "red"\n" N/A", blue \n\n\n',
    ],
    ids=["comma", "semicolon", "tab", "bar", "quotes"],
)  # fmt: skip
def test_the_same_table_in_many_forms(tmp_path, data):
    table = read(tmp_path, data)
    assert table.names == ("a", "b")
    assert values(table) == [[1.5, None], ["red", "blue"]]
    assert table.lines.tolist() == [2, 3]


def test_lines_count_quoted_line_ends(tmp_path):
    table = read(tmp_path, 'a,b\n1,"two\nlines"\n2,x\n')
    assert table.lines.tolist() == [2, 4]
    with pytest.raises(TableError, match="line 5 has 1 cell where there are 2 columns"):
        read(tmp_path, 'a,b\n1,"two\nlines"\n2,x\n3\n')


BAD_CSV = [
    ("", "empty"), (" \n", "empty"), ("a,b\n", "no rows"),
    ("a,b\n1\n", "line 2 has 1 cell where .* empty"),
    ("a,b\n1,2\n1,2,3\n", "line 3 has 3 cells where there are 2"),
    ("a,b\n1,2\n\n3,4\n", "line 3 is empty"), ("a,a\n1,2\n", "called 'a'"),
    ("a,,\n1,2,3\n", "columns 2, 3 have no name"),
    ("1,2\n3,4\n", "first line must hold the names"),
    ('a,b\n1,"x\n', "line 2.* never closed"), ('a,b\n1,"x"y\n', "line 2: a quote"),
    ("a\n1\0\n", "line 2 holds a NUL"), (b"a\n\xff\n", "line 2 is not UTF-8"),
    ("a\n雑音\n".encode("shift_jis"), "not UTF-8"),
    ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    ("a\n" + "x" * 200_000, "line 2: a cell has more"),
    (",".join(f"c{i}" for i in range(100_001)) + "\n", "at most 100,000"),
]  # fmt: skip


def test_bad_csv_is_refused_with_its_line(tmp_path):
    assert_not_read(tmp_path, BAD_CSV, "data.csv")


def test_a_line_that_tells_the_delimiter_is_no_line_of_names(tmp_path):
    table = read(tmp_path, "sep=;\na;b\n1,5;x\n2,5;y\n")
    assert table.names == ("a", "b")
    assert values(table) == [["1,5", "2,5"], ["x", "y"]]
    assert table.lines.tolist() == [3, 4]


def test_columns_without_a_name_are_called_by_their_number(tmp_path):
    table = read(tmp_path, ",a,b,\n0,1,2,\n1,3,4,\n")
    assert table.names == ("column 1", "a", "b", "column 4")
    assert values(table) == [[0.0, 1.0], [1.0, 3.0], [2.0, 4.0], [None, None]]


def test_what_is_not_a_number_makes_text(tmp_path):
    for cell in ("1_000", "١٢", "5%", "1,5", "0x10", "1 000"):
        table = read(tmp_path, f"a;b\n{cell};1\n2;2\n")
        assert values(table) == [[cell, "2"], [1.0, 2.0]]


def test_numbers_stay_text_where_wanted(tmp_path):
    table = read(tmp_path, "a,b\n01,007\n02,1\n", text=["b", "no such column"])
    assert values(table) == [[1.0, 2.0], ["007", "1"]]


def test_text_late_in_a_long_file_keeps_early_cells_as_written(tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK_CELLS", 6)
    cells = [f"{i:03}" for i in range(20)]
    lines = "".join(f"{cell},{i}\n" for i, cell in enumerate([*cells, "x1"]))
    table = read(tmp_path, "a,b\n" + lines)
    assert values(table) == [[*cells, "x1"], list(map(float, range(21)))]
    assert table.lines.tolist() == list(range(2, 23))


def test_no_header(tmp_path):
    table = read(tmp_path, "1,2\n3,x\n", header=False)
    assert table.names == ("x0", "x1")
    assert values(table) == [[1.0, 3.0], ["2", "x"]]
    assert table.lines.tolist() == [1, 2]


def test_gzip_and_its_damage(tmp_path):
    packed = gzip.compress(b"a,b\n1,2\n")
    assert values(read(tmp_path, packed, "x.csv.gz")) == [[1.0], [2.0]]
    for damaged in (packed[:-5], b"a,b\n1,2\n", packed[:12] + b"\xff\xff" + packed[14:]):
        with pytest.raises(TableError):
            read(tmp_path, damaged, "x.csv.gz")


@pytest.mark.parametrize("name", ["text", "header", "decimal", "trusted", "max_bytes", "format"])
def test_wrong_options_are_named(name, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    for value in (3.5, "1", [1], np.array(1.0), np.array(["a", "b"])[None], float("nan")):
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            read_table(path, **{name: value})
        if name != "text":
            with (
                pytest.raises(ValueError, match=rf"^{name} must be "),
                open_chunks(path, **{name: value}),
            ):
                pass


def test_unknown_endings_and_formats(tmp_path):
    with pytest.raises(TableError, match=r"ending '\.xlsx'"):
        read(tmp_path, "a\n1\n", "x.xlsx")
    assert values(read(tmp_path, "a\n1\n", "x.xlsx", format="csv")) == [[1.0]]
    with pytest.raises(ValueError, match=r"format must be one of .*'xml'"):
        read(tmp_path, "a\n1\n", format="xml")
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.csv")


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n4\n")))
    assert values(read_table("-")) == [[4.0]]


def test_svmlight(tmp_path):
    table = read(tmp_path, "# head\n+1 1:2 4:-1.5 # note\n-1 qid:3 2:1\n", "x.svm", text=["label"])
    assert table.names == ("label", "x1", "x2", "x4")
    assert values(table) == [["1", "-1"], [2.0, 0.0], [0.0, 1.0], [-1.5, 0.0]]
    assert table.lines.tolist() == [2, 3]
    assert table.fill == 0


BAD_SVMLIGHT = [
    ("1 2:1 1:1\n", "line 1: feature 1 after 2"), ("1 1:2\n1 1:inf\n", "line 2: the value"),
    ("x 1:2\n", "label 'x'"), ("1 1=2\n", "'1=2' is not number:value"), ("1 -1:2\n", "'-1:2'"),
    ("1,2 1:2\n", "label '1,2'"), ("1 99999999999:1\n", "feature 99999999999"),
    ("#\n", "no rows"),
]  # fmt: skip


def test_bad_svmlight(tmp_path):
    assert_not_read(tmp_path, BAD_SVMLIGHT, "x.libsvm")


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("dtype", "order"), [("u1", "C"), (">i4", "F"), ("f2", "C"), ("f8", "F"), ("?", "C")]
)
def test_npy(tmp_path, dtype, order):
    array = np.array([[1, 0, 1], [0, 0, 1]], dtype=dtype, order=order)
    table = read(tmp_path, npy(array), "x.npy", text=["x2"])
    assert table.names == ("x0", "x1", "x2")
    assert values(table)[:2] == [[1.0, 0.0], [0.0, 0.0]]
    assert values(table)[2] == (["True", "True"] if dtype == "?" else ["1", "1"])
    assert table.lines is None


BAD_NPY = [
    (npy(np.ones(3)), "1 dimensions"), (npy(np.ones((0, 3))), "empty"),
    (npy(np.ones((2, 2)))[:-1], "cut short"), (npy(np.ones((2, 2))) + b"x", "damaged"),
    (npy(np.array([[object()]])), "unpickled"), (npy(np.array([[1j]])), "complex"),
    (b"PK", "not a NPY"), (b"", "empty"),
    (npy(np.ones((1, 100_001), "u1")), "at most 100,000"),
    (npy(np.ones((2, 2))).replace(b"(2, 2)", b"(-2,2)"), "shape"),
]  # fmt: skip


def test_bad_npy(tmp_path):
    assert_not_read(tmp_path, BAD_NPY, "x.npy")


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def test_npz(tmp_path):
    data = npz(X=np.eye(2), y=np.array([2**60 + 1, 3]), name=np.array([" b", "NA"]))
    table = read(tmp_path, data, "x.npz", text=["y"])
    assert table.names == ("x0", "x1", "y", "name")
    assert values(table) == [[1.0, 0.0], [0.0, 1.0], [str(2**60 + 1), "3"], ["b", None]]


def test_bad_npz(tmp_path):
    with pytest.raises(TableError, match=r"'y'.* have .*all arrays"):
        read(tmp_path, npz(X=np.eye(2), y=np.ones(3)), "x.npz")
    with pytest.raises(TableError, match="'y' has 2 dimensions"):
        read(tmp_path, npz(y=np.ones((2, 2))), "x.npz")
    with pytest.raises(TableError, match="several columns are called 'x1'"):
        read(tmp_path, npz(X=np.eye(2), x1=np.ones(2)), "x.npz")
    with pytest.raises(TableError, match="unpickled"):
        read(tmp_path, npz(y=np.array([None, 1])), "x.npz")
    with pytest.raises(TableError, match="not a valid NPZ"):
        read(tmp_path, npz(X=np.eye(50))[:-40], "x.npz")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("run.py", "")
    with pytest.raises(TableError, match=r"'run\.py'"):
        read(tmp_path, stream.getvalue(), "x.npz")


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "n": pyarrow.array([1, None, 3]), "f": [0.5, float("nan"), 2.0], "b": [True, False, None],
        "s": ["x", None, " NA"], "d": pyarrow.array(["u", "v", "u"]).dictionary_encode(),
        "big": [2**60 + 1, 2, 3],
    }  # fmt: skip
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    table = read_table(path, text=["big"])
    assert values(table) == [
        [1.0, None, 3.0], [0.5, None, 2.0], [1.0, 0.0, None], ["x", None, None], ["u", "v", "u"],
        [str(2**60 + 1), "2", "3"],
    ]  # fmt: skip
    times = pyarrow.array([1, None], pyarrow.timestamp("s"))
    exact = pyarrow.array([1, 2]).cast(pyarrow.decimal128(20, 1))
    parquet.write_table(pyarrow.table({"when": times, "exact": exact}), path)
    assert values(read_table(path)) == [["1970-01-01 00:00:01", None], [1.0, 2.0]]
    parquet.write_table(pyarrow.table({"a": [[1]], "x": [1], "b": [b"1"]}), path)
    with pytest.raises(TableError, match=r"'a' is of type list.*'b' is of type binary"):
        read_table(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TableError, match="not a valid Parquet"):
        read_table(path)


def test_words_of_parquet_may_have_numbers_without_a_sign(tmp_path):
    """As polars writes categories."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    number = pyarrow.array([1, None, 0], pyarrow.uint32())
    words = pyarrow.DictionaryArray.from_arrays(number, ["a", "b"])
    parquet.write_table(pyarrow.table({"w": words}), tmp_path / "x.parquet")
    assert values(read_table(tmp_path / "x.parquet")) == [["b", None, "a"]]


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TableError, match=r"bayespoint\[parquet\]"):
        read(tmp_path, b"PAR1", "x.parquet")


def test_messages_from_data_are_safe(tmp_path):
    with pytest.raises(TableError) as caught:
        read(tmp_path, "a\x1b[31m,a\x1b[31m\n1,2\n")
    assert "\x1b" not in str(caught.value)
    assert "\\x1b" in str(caught.value)
    assert printable("a\u202eb\nc\u200bd" + "x" * 99) == "a\\u202eb\\x0ac\\u200bd" + "x" * 53 + "…"
    assert printable("größe ☃ 語") == "größe ☃ 語"


def test_write_csv_reads_back(tmp_path):
    texts = np.array(['a,"b"', None, "line\nend"], dtype=object)
    numbers = np.array([0.1 + 0.2, np.nan, 1e-300])
    path = tmp_path / "out.csv"
    with open(path, "w", encoding="utf-8", newline="") as stream:
        write_csv(stream, ["t", "n"], [texts, numbers])
    assert values(read_table(path)) == [['a,"b"', None, "line\nend"], [0.1 + 0.2, None, 1e-300]]


def test_spreadsheet_safe():
    for start in "=+-@\t\r":
        stream = io.StringIO()
        columns = [[f"{start}x()", "-5", "+1e3", "x"]]
        write_csv(stream, [f"{start}n"], columns, spreadsheet_safe=True)
        cells = stream.getvalue().replace('"', "").split("\n")
        assert cells[0].startswith("'")
        assert cells[1].startswith("'")
        assert cells[2:] == ["-5", "+1e3", "x", ""]
    assert safe_cell("＝x()") == "'＝x()"


def test_columns_and_rows():
    table = Table(("a", "b"), (np.arange(3.0), np.array(["x", "y", None], dtype=object)))
    assert table.rows(slice(1, None)).column("b").tolist() == ["y", None]
    assert table.without(["a"]).names == ("b",)
    assert table.place(1) == "row 2"
    with pytest.raises(KeyError):
        table.column("c")
