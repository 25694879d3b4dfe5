"""Files read in chunks: the same rows as at once, the same errors, and memory for one chunk."""

import gzip
import tracemalloc

import numpy as np
import pytest

from bayespoint.io.tables import TableError, open_chunks, read_table


def chunks_of(path, n_rows, text=(), **options):
    with open_chunks(path, **options) as chunks:
        return list(iter(lambda: chunks.read(n_rows, text), None))


def written(path, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


ROWS = "".join(f'{i / 7},"w {i % 3}",0{i % 2}\n' for i in range(50))
SOUND = {
    "plain": ("x,w,y\n" + ROWS, {}),
    "crlf and mark": ("\ufeffx,w,y\n" + ROWS.replace("\n", "\r\n"), {}),
    "old line ends": (("x,w,y\n" + ROWS).replace("\n", "\r"), {}),
    "no header": (ROWS, {"header": False}),
    "semicolons": (("x,w,y\n" + ROWS).replace(",", ";"), {}),
    "a line for Excel": ("sep=;\n" + ("x,w,y\n" + ROWS).replace(",", ";"), {}),
    "quoted ends": ('x,y\n1,"a\nb"\n2,"c ""d"""\n3,e\n\n\n', {}),
    "beyond ASCII": ("x,y\n1,ä\n1_0,b\n٣,c\n", {}),
}


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
@pytest.mark.parametrize("case", SOUND)
def test_chunks_are_the_rows_of_the_file(tmp_path, case, ending):
    content, options = SOUND[case]
    path = written(tmp_path / f"d{ending}", content)
    whole = read_table(path, text=["y", "x2"], **options)
    text = [n for n, c in zip(whole.names, whole.columns, strict=True) if c.dtype == object]
    for n_rows in (1, 7, 50, 1000):
        parts = chunks_of(path, n_rows, text, **options)
        assert [part.n_rows for part in parts[:-1]] == [n_rows] * (len(parts) - 1)
        assert all(part.names == whole.names for part in parts)
        for i, column in enumerate(whole.columns):
            np.testing.assert_array_equal(np.concatenate([p.columns[i] for p in parts]), column)
        np.testing.assert_array_equal(np.concatenate([p.lines for p in parts]), whole.lines)


def test_a_column_of_text_is_as_it_stands_though_it_begins_with_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("bayespoint.io.tables.text.BLOCK_CELLS", 4)  # two rows are parsed at once
    path = written(tmp_path / "d.csv", "x,y\n01,1\n02,2\nA3,3\n04,4\n05,5\n06,6\n07,7\n08,8\n")
    first, second = chunks_of(path, 4)
    assert first.column("x").tolist() == ["01", "02", "A3", "04"]
    assert first.column("y").tolist() == [1, 2, 3, 4]
    assert second.column("x").tolist() == [5, 6, 7, 8]  # unless text is asked for
    assert chunks_of(path, 4, ["x"])[1].column("x").tolist() == ["05", "06", "07", "08"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"x,x\n1,2\n", "several columns"),
        (b"1,2\n3,4\n", "names of the columns"),
        (b"x,y\n" + b"1,2\n" * 5 + b"3\n", "line 7 has 1 cell"),
        (b"x,y\n" + b"1,2\n" * 5 + b"\n3,4\n", "line 7 is empty"),
        (b"x,y\n" + b"1,2\n" * 5 + b"1,\0\n", "line 7 holds a NUL byte"),
        (b"x,y\n" + b"1,2\n" * 5 + b"1,\xff\n", "line 7 is not UTF-8"),
        (b"x,y\n" + b"1,2\r\n" * 9999 + b"1,\xff\n", "line 10001 is not UTF-8"),
        (b"x,y\n" + b"1,2\n" * 5 + b'1,"a\n', "never closed"),
        ("x,y\n1,2\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_errors_name_the_line(tmp_path, content, words):
    path = written(tmp_path / "d.csv", content)
    with pytest.raises(TableError, match=words):
        chunks_of(path, 4)
    with pytest.raises(TableError, match=words):
        read_table(path)


def test_what_is_not_read_in_chunks(tmp_path, monkeypatch):
    with pytest.raises(TableError, match="npy files are not read in chunks"):
        chunks_of(tmp_path / "d.npy", 4)
    with pytest.raises(FileNotFoundError):
        chunks_of(tmp_path / "d.csv", 4)
    packed = gzip.compress(b"x,y\n" + b"1,2\n" * 50_000)
    for damaged in (packed[:-20], b"x,y\n1,2\n"):
        (tmp_path / "d.csv.gz").write_bytes(damaged)
        with pytest.raises(TableError, match="not valid gzip"):
            chunks_of(tmp_path / "d.csv.gz", 4000)
    monkeypatch.setattr("bayespoint.io.tables.chunks.MAX_LINE", 100)
    with pytest.raises(TableError, match=r"line 2 has more than .* characters"):
        chunks_of(written(tmp_path / "d.csv", "x,y\n" + "1" * 500), 4)


@pytest.mark.parametrize("ending", [".csv.gz", pytest.param(".csv", marks=pytest.mark.slow)])
def test_memory_is_that_of_a_chunk(tmp_path, ending):
    n_rows = 20_000
    path = written(tmp_path / f"d{ending}", "x,y\n" + "0.25,1\n" * n_rows)

    def most(read):
        tracemalloc.start()
        try:
            found = read()
            return found, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def in_chunks():
        with open_chunks(path) as chunks:
            return sum(table.n_rows for table in iter(lambda: chunks.read(500), None))

    found, small = most(in_chunks)
    assert found == n_rows
    table, large = most(lambda: read_table(path))
    assert table.n_rows == n_rows
    assert 6 * small < large  # buffers of files are larger from Python 3.14 on
