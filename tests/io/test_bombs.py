"""Small files that would grow: each is refused, with little time and memory."""

import json
import re
import zipfile

import numpy as np
import pytest
from helpers.bombs import MOST_BYTES, MOST_SECONDS, outcome, write_gzip
from helpers.hostile import members_of, place

from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import layout
from bayespoint.io.tables import TableError, open_chunks, read_table, reading
from bayespoint.io.tables.table import MAX_COLUMNS, MAX_EMPTY_LINES

MIB = 2**20

GROWING = {
    "one long field": ("a.csv.gz", b"x,y\n1,", b"a", "unpacks to more than"),
    "spaces": ("a.csv.gz", b"x,y\n1,", b" ", "unpacks to more than"),
    "spaces first": ("a.csv.gz", b"", b" ", "unpacks to more than"),
    "newlines": ("a.csv.gz", b"x,y\n1,2\n", b"\n", "unpacks to more than|empty lines"),
    "newlines first": ("a.csv.gz", b"", b"\r\n", "unpacks to more than|empty lines"),
    "names": ("a.csv.gz", b"x,", b"ab,", "unpacks to more than"),
    "features": ("a.svm.gz", b"1 ", b"1:1 ", "unpacks to more than"),
    "comments": ("a.svm.gz", b"1 1:1", b"\n#", "unpacks to more than"),
}


def refused_in_a_child(how, path, words):
    peak, seconds, said = outcome(how, path)
    assert re.search(words, said), said
    assert peak < MOST_BYTES, f"{peak:,} bytes"
    assert seconds < MOST_SECONDS, f"{seconds} s"


def cases(every):
    """All bombs that are read at once, and those of CSV in chunks; or the one of a quick run."""
    found = [(how, name) for name in GROWING for how in ("read_table", "in_chunks")]
    found = [(how, name) for how, name in found if how == "read_table" or "csv" in GROWING[name][0]]
    quick = [("in_chunks", "newlines first")]
    return [case for case in found if (case in quick) != every]


@pytest.mark.parametrize(
    ("how", "name"),
    [*cases(every=False), *(pytest.param(*c, marks=pytest.mark.slow) for c in cases(every=True))],
)
def test_packed_tables_that_grow(how, name, tmp_path):
    ending, start, repeated, words = GROWING[name]
    path = write_gzip(tmp_path / ending, start, repeated, 100 * MIB)
    assert path.stat().st_size < MIB / 2
    refused_in_a_child(how, path, words)


# What a file of 2 MB or a little more says that grows just less than 100 times, read at once or in
# chunks.
LONG_LINE = r"line {} has more than 16,777,216 characters.*--trusted"
EMPTY_LINES = "more than 10,000 empty lines.*--trusted"
LINES = r"unpacks to more than [\d,]+ lines, the limit.*--max-bytes"
CELLS = r"unpacks to more than [\d,]+ cells, the limit.*--max-bytes"
BELOW_THE_RATIO = {
    "one long field": LONG_LINE.format(2),
    "spaces": LONG_LINE.format(2),
    "spaces first": LONG_LINE.format(1),
    "newlines": f"{EMPTY_LINES}|{LINES}",
    "newlines first": f"{EMPTY_LINES}|{LINES}",
    "names": f"{CELLS}|{LONG_LINE.format(1)}",  # at once, or in chunks
    "features": CELLS,
    "comments": LINES,
    "cells of numbers": CELLS,
    "cells of text": CELLS,
    "long lines": r"line 2: a cell has more than 131,072.*field_size_limit",
    "rows": LINES,
}
QUICK = ("read_table", "rows")
WIDE = b",".join(b"x%d" % i for i in range(1000)) + b"\n"
MORE = {
    "long lines": ("a.csv.gz", b"x\n", b"a" * 2**19 + b"\n" + b"b" * (2**19 - 1), ""),
    "rows": ("a.csv.gz", b"x\n", b"0\n", ""),
    "cells of numbers": ("a.csv.gz", WIDE, b"0," * 999 + b"0\n", ""),
    "cells of text": ("a.csv.gz", WIDE, b"ab," * 999 + b"ab\n", ""),
}


@pytest.mark.parametrize(
    ("how", "name"),
    [
        pytest.param(how, name, marks=() if (how, name) == QUICK else pytest.mark.slow)
        for name in BELOW_THE_RATIO for how in ("read_table", "in_chunks")
        if how == "read_table" or name not in ("features", "comments")
    ],
)  # fmt: skip
def test_packed_tables_that_grow_less(how, name, tmp_path):
    ending, start, repeated, _ = (GROWING | MORE)[name]
    path = write_gzip(tmp_path / ending, start, repeated, 190 * MIB, padding=int(3.3 * MIB))
    assert 1.9 < path.stat().st_size / MIB < 2.4
    assert path.stat().st_size * reading.MAX_RATIO > 190 * MIB
    refused_in_a_child(how, path, BELOW_THE_RATIO[name])


N_CELLS = 100_000_000
BINARY = {
    "numbers": ("a.npz", lambda path: np.savez_compressed(path, X=np.zeros((N_CELLS, 1), "u1"))),
    "texts": ("a.npz", lambda path: np.savez_compressed(path, x=np.zeros(N_CELLS // 8, "U2"))),
    "long texts": ("a.npz", lambda path: np.savez_compressed(path, x=np.zeros(10_000, "U9999"))),
    "parquet": ("a.parquet", lambda path: write_parquet(path, np.zeros(N_CELLS // 4))),
    "dates": ("a.parquet", lambda path: write_parquet(path, np.zeros(N_CELLS // 4, "M8[s]"))),
    "one text": ("a.parquet", lambda path: write_parquet(path, ["a" * 2**28])),
}


def write_parquet(path, values):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": values}), path, compression="zstd")


@pytest.mark.slow
@pytest.mark.parametrize("name", BINARY)
def test_packed_arrays_that_grow(name, tmp_path):
    ending, write = BINARY[name]
    write(tmp_path / ending)
    assert (tmp_path / ending).stat().st_size < MIB
    refused_in_a_child("read_table", tmp_path / ending, r"cells, more than [\d,]+, .*--trusted")


def test_honest_arrays_are_packed_less(tmp_path, monkeypatch):
    """A control, with hardly any cells that are free."""
    monkeypatch.setattr("bayespoint.io.tables.table.FREE_CELLS", 1000)
    rng, path = np.random.default_rng(0), tmp_path / "a.npz"
    np.savez_compressed(path, X=rng.integers(2, size=(1000, 20)), y=rng.choice(["a", "b"], 1000))
    assert read_table(path).n_rows == 1000
    np.savez_compressed(path, X=np.zeros((1000, 20)))
    with pytest.raises(TableError, match=r"unpacks to 20,\d\d\d cells, more than .*--trusted"):
        read_table(path)
    assert read_table(path, trusted=True).n_rows == 1000


def test_lines_of_honest_tables_are_not_too_many(tmp_path, monkeypatch):
    """A control: rows with little to tell, more of them than are free."""
    monkeypatch.setattr(reading, "FREE_LINES", 1000)
    bits = np.random.default_rng(0).integers(2, size=(10_000, 2))
    path = tmp_path / "a.csv.gz"
    np.savetxt(path, bits, fmt="%d", delimiter=",", header="x,y", comments="")
    assert read_table(path).n_rows == 10_000
    monkeypatch.setattr(reading, "MAX_LINE_RATIO", 1)
    with pytest.raises(TableError, match=LINES):
        read_table(path)


LIMITS = {
    "empty lines": (b"x,y\n1,2\n" + b"\n" * (MAX_EMPTY_LINES + 2), "empty lines follow each other"),
    "empty lines first": (b"\n" * (MAX_EMPTY_LINES + 2) + b"x\n1\n", "empty lines follow each"),
    "columns": (b"a," * MAX_COLUMNS + b"b\n", f"at most {MAX_COLUMNS:,}"),
    "a later row": (b"x,y\n" + b"1," * MAX_COLUMNS + b"1\n", f"line 2 .*at most {MAX_COLUMNS:,}"),
    "rows in quotes": (b'"\n,"' * 1_000_001, "at most|characters"),
    "a field": (b"x,y\n1," + b"a" * 200_000 + b"\n", "more than 131,072 characters"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_tables_that_are_not_packed(name, tmp_path):
    content, words = LIMITS[name]
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    words = f"(?:{words}).*(?:trusted=True .--trusted. lifts|csv.field_size_limit.n. raises)"
    with pytest.raises(TableError, match=words):
        read_table(path)
    with pytest.raises(TableError, match=words), open_chunks(path) as chunks:
        chunks.read(10)


def test_a_file_that_is_trusted_has_no_limits(tmp_path, monkeypatch):
    monkeypatch.setattr("bayespoint.io.tables.text.MAX_LINE", 100)
    wide = MAX_COLUMNS + 1
    names = ",".join(f"a{i}" for i in range(wide))
    columns = (f"{names}\n{'1,' * (wide - 1)}1\n", wide)
    empty_lines = ("\n" * (MAX_EMPTY_LINES + 2) + "x,y\n1,2\n", 2)
    for content, n_columns in (columns, empty_lines):
        path = tmp_path / "a.csv"
        path.write_text(content)
        with pytest.raises(TableError, match="trusted=True"):
            read_table(path)
        assert len(read_table(path, trusted=True).names) == n_columns
        with open_chunks(path, trusted=True) as chunks:
            assert len(chunks.read(1).names) == n_columns
        with pytest.raises(TableError, match="trusted=True"):  # which holds for that file only
            read_table(path)
    np.save(tmp_path / "a.npy", np.zeros((1, wide)))
    with pytest.raises(TableError, match=r"100,001 columns.*trusted=True"):
        read_table(tmp_path / "a.npy")
    assert len(read_table(tmp_path / "a.npy", trusted=True).names) == wide


def test_what_is_trusted_or_in_memory_can_be_encoded_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr("bayespoint.io.tables.table.MAX_CELLS", 5)
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,2\n3,5\n2,7\n")
    with pytest.raises(TableError, match=r"3 rows of 2 columns.*trusted=True"):
        read_table(path)
    table = read_table(path, trusted=True)
    with open_chunks(path, trusted=True) as chunks:
        some = chunks.read(3)
    for rows in (table, some, table.rows(slice(3)), np.stack(table.columns, axis=1)):
        assert TableEncoder().fit(rows).transform(rows).shape == (3, 2)
    with pytest.raises(TableError, match="3 rows of 2 columns"):
        TableEncoder().fit(table).transform(table._replace(trusted=False))


def test_the_limit_can_be_raised_and_lowered(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "FREE_BYTES", MIB // 2)
    line = b"0,0,0,0,0,0,0,0,0,0\n"  # a sound table that is packed well
    path = write_gzip(tmp_path / "a.csv.gz", b"a,b,c,d,e,f,g,h,i,j\n", line, MIB)
    assert path.stat().st_size < MIB / 200
    for read in (lambda **most: read_table(path, **most), lambda **most: in_chunks(path, most)):
        with pytest.raises(TableError, match=r"more than 524,288, the limit.*--max-bytes"):
            read()
        assert len(read(max_bytes=2 * MIB).names) == 10
        with pytest.raises(TableError, match=r"more than 1,000, the limit"):
            read(max_bytes=1000)
    plain = tmp_path / "a.csv"
    plain.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(TableError, match="more than 7 bytes, the limit"):
        read_table(plain, max_bytes=7)


def in_chunks(path, most):
    with open_chunks(path, **most) as chunks:
        while (table := chunks.read(10**6)) is not None:
            last = table
    return last


def test_quoted_delimiters_are_not_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'x,y\n1,"' + b"," * 120_000 + b'"\n')
    assert read_table(path).column("y")[0] == "," * 120_000


# ---------------------------------------------------------------------- JSON

GROWN = {
    "lists": ("[" + "[]," * 10_000_000 + "[]]", "values and names"),
    "objects": ("[" + "{}," * 10_000_000 + "{}]", "values and names"),
    "numbers": ("[" + "1," * 15_000_000 + "1]", "values and names"),
    "texts": ("[" + '"a",' * 8_000_000 + '"a"]', "values and names"),
    "depth": ("[" * 10_000_000, "nested too deep"),
    "objects in objects": ('{"a":' * 5_000_000, "nested too deep"),
    "a text without end": ('"' + '\\"' * 15_000_000, "not a model|damaged"),
}


def with_json(good, path, text):
    """Model file that has this text among its notes, packed."""
    members = members_of(good)
    document = json.loads(members["model.json"])
    place(document)
    document["about"] = {"x": "HERE"}
    members["model.json"] = json.dumps(document).replace('"HERE"', text, 1).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            with archive.open(name, "w") as member:
                member.write(content)
    return path


@pytest.mark.parametrize(
    "name",
    [name if name in ("lists", "depth") else pytest.param(name, marks=pytest.mark.slow)
     for name in GROWN],
)  # fmt: skip
def test_json_that_grows(name, good, tmp_path):
    text, words = GROWN[name]
    path = with_json(good, tmp_path / "m.bpm", text)
    assert path.stat().st_size < MIB
    refused_in_a_child("load", path, words)


def test_signs_inside_texts_are_none(good, tmp_path):
    """A control: notes full of brackets, quotes and commas are loaded as they are."""
    from bayespoint.io.model_file import load

    notes = '[{"' * 1000 + ',:\\"' * 1000 + "\\"
    path = with_json(good, tmp_path / "m.bpm", json.dumps(notes))
    assert load(path).about == {"x": notes}


def test_honest_models_meet_the_limit_of_bytes_first():
    """Numbers of an encoder, ranks of long tails among them, are longer than those of a bomb."""
    from bayespoint.io.encoder import TableEncoder
    from bayespoint.io.tables import Table

    rng = np.random.default_rng(0)
    columns = tuple(np.exp(rng.normal(size=(20, 50))))  # with long tails
    table = Table(tuple(f"x{i}" for i in range(20)), columns)
    text = json.dumps(TableEncoder().fit(table).to_state())
    signs = sum(map(text.count, ",:[{"))
    assert layout.MAX_JSON_VALUES * len(text) / signs > layout.MAX_JSON_BYTES
