"""Ten thousand damaged and odd data files: each is read right, or refused with a clear message.

Every file goes through reading, encoding and prediction by one fixed model. What is read is
compared with an independent reading: by the csv module with numbers by Decimal, numpy.load,
scikit-learn's load_svmlight_file or pyarrow; features are computed again with Decimal. Some files
go through the command line. Nothing but a TableError, or exit codes 0, 1 and 2, may come out.

    python benchmarks/fuzz_files.py [--files 10000] [--commands 300] [--seed 0]
"""

import argparse
import csv
import io
import re
import tempfile
import time
import unicodedata
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file
from typer.testing import CliRunner

from bayespoint import BayesPointClassifier
from bayespoint.cli.app import app
from bayespoint.cli.deciding import decide
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import save
from bayespoint.io.tables import TableError, read_table

NAMES = ["size", "weight", "colour", "number"]
COLOURS = ["red", "green", "blue", "größe"]
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"]
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WIDE = 100_000


class Case(NamedTuple):
    """A file, how its name ends, and what must come of it: "read", "refused" or "either"."""

    data: bytes
    ending: str
    wanted: str = "either"
    line: int | None = None  # that the message must name


class Fuzz:
    """Makes cases of all kinds from one generator of random numbers."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def rows(self, n=None):
        n = int(self.rng.integers(1, 12)) if n is None else n
        return [
            [f"{self.rng.normal():.3f}", f"{self.rng.normal() * 10:.2e}", self.pick(COLOURS),
             str(self.rng.integers(-99, 99))]
            for _ in range(n)
        ]  # fmt: skip

    def text(self, rows, names=NAMES, *, delimiter=",", end="\n", quote=csv.QUOTE_MINIMAL):
        stream = io.StringIO()
        writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quote)
        writer.writerow(names)
        writer.writerows(rows)
        return stream.getvalue()

    def valid(self):
        order = self.rng.permutation(len(NAMES))
        rows, names = self.rows(), [NAMES[i] for i in order]
        rows = [[row[i] for i in order] for row in rows]
        if self.rng.random() < 0.3:
            names, rows = [*names, "extra"], [[*row, "a,b;c\n\"d'"] for row in rows]
        text = self.text(
            rows, names, delimiter=self.pick([",", ";", "\t", "|"]),
            end=self.pick(["\n", "\r\n", "\r"]), quote=self.pick([0, 1]),
        )  # fmt: skip
        text = text.rstrip("\r\n") if self.rng.random() < 0.3 else text
        bom = b"\xef\xbb\xbf" if self.rng.random() < 0.3 else b""
        return Case(bom + text.encode(), ".csv", "read")

    def truncated(self):
        data = self.text(self.rows(), quote=self.pick([0, 1])).encode()
        return Case(data[: int(self.rng.integers(len(data)))], ".csv")

    def flipped(self):
        data = bytearray(self.text(self.rows(), quote=self.pick([0, 1])).encode())
        for _ in range(int(self.rng.integers(1, 6))):
            data[int(self.rng.integers(len(data)))] = int(self.rng.integers(256))
        return Case(bytes(data), ".csv")

    def encodings(self):
        rows = [*self.rows(), ["1", "2", "größe", "3"]]
        encoding = self.pick(["latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252", "shift_jis"])
        expected = {"shift_jis": "either", "latin-1": "read", "cp1252": "read"}
        return Case(self.text(rows).encode(encoding, "replace"), ".csv",
                    expected.get(encoding, "refused"))  # fmt: skip

    def ragged(self):
        rows = self.rows(int(self.rng.integers(2, 12)))
        at = int(self.rng.integers(len(rows)))
        if self.rng.random() < 0.5:
            rows[at] = rows[at][: int(self.rng.integers(1, 4))]
        else:
            rows[at] = [*rows[at], "1"]
        return Case(self.text(rows).encode(), ".csv", "refused", line=at + 2)

    def constant(self):
        rows = [self.rows(1)[0]] * int(self.rng.integers(1, 9))
        return Case(self.text(rows).encode(), ".csv", "read")

    def missing(self):
        rows = self.rows()
        share = self.pick([0.2, 0.7, 1.0])
        rows = [[self.pick(MISSING) if self.rng.random() < share else c for c in r] for r in rows]
        return Case(self.text(rows).encode(), ".csv", "read")

    def unseen(self):
        rows = [[*r[:2], self.pick(["mauve", "=1+1", "\x1b[31m", "re\u202ed", "x" * 500]), r[3]]
                for r in self.rows()]  # fmt: skip
        return Case(self.text(rows).encode(), ".csv", "read")

    def huge(self):
        power = int(self.rng.integers(15, 420))
        cell = self.pick([
            "9" * (power + 1), f"-{'1' * power}", f"1e{power}", f"{'0' * power}1", f"1e-{power}",
            f"0.{'0' * power}1", f"1e{power * 1000}",
        ])  # fmt: skip
        rows = self.rows()
        rows[int(self.rng.integers(len(rows)))][int(self.pick([0, 1, 3]))] = cell
        finite = abs(Decimal(cell)) < Decimal("1.797e308")
        return Case(self.text(rows).encode(), ".csv", "read" if finite else "either")

    def formats(self):
        cell = self.pick([
            "1_000", "١٢", "0x10", "1e", "+.5", "1.", "-.5e-3", "1,5", "1 000", "5\xa0", "∞", "inf",
            "-Infinity", "1e+5", "--1", "1f", "NaN", "-nan", "True", "1/2", "5%", "$5", "５",
        ])  # fmt: skip
        rows = self.rows()
        rows[int(self.rng.integers(len(rows)))][int(self.pick([0, 1, 3]))] = cell
        return Case(self.text(rows, delimiter=self.pick([",", ";"])).encode(), ".csv")

    def empty(self):
        header = ",".join(NAMES)
        data = self.pick([b"", b"\n", b"\r\n\r\n", b" ", b"\xef\xbb\xbf", b"\t\t", header.encode(),
                          (header + "\n\n").encode(), b'""', b"\xef\xbb\xbf\n"])  # fmt: skip
        return Case(data, self.pick([".csv", ".tsv", ".csv", ".npy", ".npz", ".svm"]), "refused")

    def nulls(self):
        data = bytearray(self.text(self.rows()).encode())
        data.insert(int(self.rng.integers(len(data))), 0)
        return Case(bytes(data), ".csv", "refused")

    def quotes(self):
        text = list(self.text(self.rows(), quote=self.pick([0, 1])))
        for _ in range(int(self.rng.integers(1, 4))):
            text.insert(int(self.rng.integers(len(text))), self.pick(['"', "'", '""', '\n"']))
        return Case("".join(text).encode(), ".csv")

    def line_ends(self):
        lines = self.text(self.rows()).split("\n")[:-1]
        text = "".join(line + self.pick(["\n", "\r\n", "\r", "\n"]) for line in lines)
        if self.rng.random() < 0.3:
            at = int(self.rng.integers(len(text)))
            text = (
                text[:at] + self.pick(["\r", "\n", "\r\r\n", "\x0b", "\u2028", "\x1c"]) + text[at:]
            )
        return Case(text.encode(), ".csv")

    def headers(self):
        names = list(NAMES)
        at = int(self.rng.integers(4))
        change = self.pick(["twice", "empty", "numbers", "odd", "missing"])
        rows = self.rows()
        if change == "missing":
            names[at] = "other"
            return Case(self.text(rows, names).encode(), ".csv")
        if change == "odd":
            extra = self.pick(["=cmd()", "\x1b[2J", "a\nb", "\u202ex", "n" * 5000])
            return Case(
                self.text([[*r, "1"] for r in rows], [*names, extra]).encode(), ".csv", "read"
            )
        if change == "empty":  # the column is called by its number
            names[at] = " "
            return Case(self.text(rows, names).encode(), ".csv", "read")
        names = [*names[:3], names[at % 3]] if change == "twice" else ["1", "2", "3", "4"]
        return Case(self.text(rows, names).encode(), ".csv", "refused")

    def wide(self):
        n = WIDE - 4 + int(self.rng.integers(0, 2)) * 5
        names = [*NAMES, *(f"c{i}" for i in range(n))]
        rows = [row + ["1"] * n for row in self.rows(2)]
        if self.rng.random() < 0.3:
            rows[1] = rows[1][:-1]
            return Case(self.text(rows, names).encode(), ".csv", "refused")
        return Case(self.text(rows, names).encode(), ".csv", "read" if n + 4 <= WIDE else "refused")

    def _mutated(self, data, share=0.8):
        data = bytearray(data)
        if self.rng.random() > share:
            return bytes(data)
        for _ in range(int(self.rng.integers(1, 5))):
            if len(data) < 2:
                break
            at, how = int(self.rng.integers(len(data))), self.rng.random()
            if how < 0.6:
                data[at] = int(self.rng.integers(256))
            elif how < 0.8:
                del data[at : at + int(self.rng.integers(1, 40))]
            else:
                data[at:at] = self.rng.bytes(int(self.rng.integers(1, 9)))
        return bytes(data)

    def npy(self):
        dtype = self.pick(["f8", "f4", "i8", "u1", ">f8", ">i2", "?", "U3", "c16", "O", "M8[s]"])
        shape = self.pick([(5, 4), (5,), (2, 2, 2), (0, 4), (5, 0), ()])
        array = self.rng.integers(0, 2, shape).astype(dtype)
        stream = io.BytesIO()
        np.save(stream, np.asfortranarray(array) if self.rng.random() < 0.3 else array)
        return Case(self._mutated(stream.getvalue()), ".npy")

    def npz(self):
        stream = io.BytesIO()
        write = self.pick([np.savez, np.savez_compressed])
        odd = self.pick([np.zeros(5), np.zeros(4), np.zeros((5, 1)), np.ones(5, "O")])
        write(stream, X=self.rng.normal(size=(5, 4)), label=np.array(list("ababa")), odd=odd)
        return Case(self._mutated(stream.getvalue()), ".npz")

    def svmlight(self):
        lines = []
        for _ in range(int(self.rng.integers(1, 8))):
            chosen = np.flatnonzero(self.rng.random(9) < 0.5) + 1
            cells = " ".join(f"{i}:{self.rng.normal():.4g}" for i in chosen)
            lines.append(f"{self.pick(['+1', '-1', '2'])} {cells}{self.pick(['', ' # note'])}")
        return Case(self._mutated("\n".join(lines).encode() + b"\n"), ".svm")

    def parquet(self):
        import pyarrow
        import pyarrow.parquet

        rows = self.rows(6)
        table = pyarrow.table({
            "size": [float(r[0]) for r in rows], "weight": [None, *(float(r[1]) for r in rows[1:])],
            "colour": pyarrow.array([r[2] for r in rows]).dictionary_encode(),
            "number": [int(r[3]) for r in rows],
        })  # fmt: skip
        stream = io.BytesIO()
        pyarrow.parquet.write_table(table, stream)
        return Case(self._mutated(stream.getvalue()), ".parquet")


KINDS = (
    "valid", "truncated", "flipped", "encodings", "ragged", "constant", "missing", "unseen", "huge",
    "formats", "empty", "nulls", "quotes", "line_ends", "headers", "npy", "npz", "svmlight",
    "parquet",
)  # fmt: skip
N_WIDE = 20


# ---------------------------------------------------------------------- independent readings


def expected_columns(case, path):
    """Names and columns by other means than ours; columns are lists of float, str and None."""
    if case.ending in (".csv", ".tsv"):
        return _by_csv(case.data)
    if case.ending == ".npy":
        X = np.load(path, allow_pickle=False)
        return [f"x{i}" for i in range(X.shape[1])], [_plain(column) for column in X.T]
    if case.ending == ".npz":
        return _by_numpy(path)
    if case.ending == ".svm":
        X, y = load_svmlight_file(str(path), zero_based=True)
        used = np.unique(X.indices)
        columns = [X[:, [i]].toarray().ravel() for i in used]
        return ["label", *(f"x{i}" for i in used)], [_plain(c) for c in (y, *columns)]
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    return table.column_names, [_texts(column.to_pylist()) for column in table.columns]


def _by_csv(data):
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252")
    first = re.split("[\r\n]", text.lstrip("\r\n"))[0]
    outside = re.sub('"[^"]*("|$)', "", first)
    delimiter = max(",;\t|", key=lambda d: outside.count(d))
    lines = re.findall("[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text)
    rows = list(csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True))
    while not rows[0]:
        rows.pop(0)
    while not rows[-1]:
        rows.pop()
    names, *rows = [[cell.strip() for cell in row] for row in rows]
    names = [name or f"column {number}" for number, name in enumerate(names, 1)]
    assert all(len(row) == len(names) for row in rows), "ragged"
    return names, [_cells(column) for column in zip(*rows, strict=True)]


def _cells(column):
    """Numbers if all cells are, else text."""
    there = [cell for cell in column if cell not in MISSING and cell not in ("-nan", "+nan")]
    if not all(NUMBER.fullmatch(cell) for cell in there):
        return [None if cell in MISSING else cell for cell in column]
    return [float(Decimal(cell)) if cell in there else None for cell in column]


def _by_numpy(path):
    names, columns = [], []
    with np.load(path, allow_pickle=False) as file:
        for name in file.files:
            array = file[name]
            if name == "X":
                names += [f"x{i}" for i in range(array.shape[1])]
                columns += [_plain(column) for column in array.T]
            else:
                names.append(name)
                columns.append(_texts(array.tolist()))
    return names, columns


def _plain(values):
    return [None if value != value else float(value) for value in values.tolist()]


def _texts(values):
    """Values of a list as a table holds them."""
    cleaned = [value.strip() if isinstance(value, str) else value for value in values]
    return [
        None if v is None or v in MISSING or v != v else v if isinstance(v, str) else float(v)
        for v in cleaned
    ]


def check_same(table, names, columns):
    """Fail unless the table holds exactly these values."""
    assert list(table.names) == list(names), (table.names, names)
    for name, column, wanted in zip(table.names, table.columns, columns, strict=True):
        found = [None if v is None or v != v else v for v in column.tolist()]
        assert found == list(wanted), (name, found, wanted)


def check_encoded(encoder, table, X):
    """Fail unless each cell is encoded as the encoder's stored state says."""
    wanted = []
    for column in encoder.to_state()["columns"]:
        values = table.column(column["name"]).tolist()
        if column["kind"] == "category":
            texts = [f"{v:.15g}" if isinstance(v, float) and v == v else v for v in values]
            wanted += [[float(v == value) for v in texts] for value in column["values"]]
            continue
        numbers = [column["median"] if v is None or v != v else float(v) for v in values]
        scaled = [
            (place_of(Decimal(v), column) - Decimal(column["mean"])) / Decimal(column["scale"])
            for v in numbers
        ]
        wanted.append([float(max(min(v, Decimal(10**6)), Decimal(-(10**6)))) for v in scaled])
    np.testing.assert_allclose(X, np.array(wanted).T, rtol=1e-9, atol=1e-9)


def place_of(value, column):
    """Place of a number among the knots of a column with a long tail; else the number."""
    knots, places = ([Decimal(v) for v in column[key]] for key in ("knots", "places"))
    if not knots:
        return value
    slope = (places[-1] - places[0]) / (knots[-1] - knots[0])
    if not knots[0] <= value <= knots[-1]:
        end = 0 if value < knots[0] else -1
        return places[end] + slope * (value - knots[end])
    i = max(j for j in range(len(knots) - 1) if knots[j] <= value)
    part = (value - knots[i]) / (knots[i + 1] - knots[i])
    return places[i] + part * (places[i + 1] - places[i])


def check_message(text, line=None):
    """Fail unless a message can be printed safely, is not endless, and names the line."""
    bad = [c for c in text if c != " " and unicodedata.category(c)[0] in "CZ"]
    assert not bad, f"unsafe characters in {text!r}"
    assert len(text) < 2000, f"a message of {len(text)} characters"
    assert line is None or re.search(rf"\bline {line}\b", text), f"{text!r} does not name {line}"


# ---------------------------------------------------------------------- running


def fixed_model(folder):
    """Return encoder and classifier trained on sound rows, and the path of their model file."""
    fuzz = Fuzz(1)
    path = Path(folder) / "train.csv"
    path.write_text(fuzz.text(fuzz.rows(60)), encoding="utf-8")
    table = read_table(path)
    encoder = TableEncoder().fit(table)
    X = encoder.transform(table)
    labels = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    classifier = BayesPointClassifier(gamma=0.2, softness=0.1, random_state=0).fit(X, labels)
    model = Path(folder) / "model.bpm"
    save(model, classifier, encoder=encoder, about={"target": "class"})
    return encoder, classifier, model


def run_case(case, path, encoder, classifier):
    """Return how far a file came: "predicted", "read", or "refused"."""
    path.write_bytes(case.data)
    try:
        table = read_table(path)
    except TableError as error:
        check_message(str(error), case.line)
        if case.wanted == "read":
            raise AssertionError(f"refused: {error}") from None
        return "refused"
    assert case.wanted != "refused", "read"
    if len(table.names) < WIDE // 2:
        check_same(table, *expected_columns(case, path))
    try:
        own = TableEncoder().fit(table)
        check_message(" ".join(own.notes_)[:1999])
        check_encoded(own, table, own.transform(table))
    except TableError as error:
        check_message(str(error))
    try:
        X, notes = encoder.encode(table)
    except TableError as error:
        check_message(str(error))
        return "read"
    check_message(" ".join(notes)[:1999])
    check_encoded(encoder, table, X)
    decided = decide(classifier, X)
    assert np.isfinite(decided.proba).all()
    assert len(decided.labels) == table.n_rows
    return "predicted"


def run_command(case, path, model, rng):
    """Run train or predict in this process; return the exit code."""
    path.write_bytes(case.data)
    output = path.parent / "output.csv"
    output.unlink(missing_ok=True)
    command = ["predict", str(path), "--model", str(model), "--output", str(output)]
    if rng.random() < 0.2:
        command = ["train", str(path), "--target", "colour", "--model", str(output), "--quiet",
                   "--max-time", "0.2", "--inference", "perceptron", "--n-draws", "4"]  # fmt: skip
    result = CliRunner().invoke(app, command)
    assert result.exit_code in (0, 1, 2), (result.exit_code, result.output)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    assert output.exists() == (result.exit_code == 0), result.output
    if result.exit_code == 0 and command[0] == "predict":
        rows = list(csv.reader(io.StringIO(output.read_text(encoding="utf-8"))))
        assert len(rows) == read_table(path).n_rows + 1
    return result.exit_code


def planned(n_files):
    """Return kinds and how many files of each."""
    n_wide = n_files * N_WIDE // 10_000
    each, rest = divmod(n_files - n_wide, len(KINDS))
    counts = {kind: each + (i < rest) for i, kind in enumerate(KINDS)}
    return counts | {"wide": n_wide}


def run(n_files, n_commands, seed, say=print):
    """Run all; return the number of failures."""
    failures = 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder, classifier, model = fixed_model(folder)
        say(f"{'kind':<12}{'files':>7}{'refused':>9}{'read':>7}{'predicted':>11}{'seconds':>9}")
        for number, (kind, count) in enumerate(planned(n_files).items()):
            fuzz, start, outcomes = Fuzz([seed, number]), time.perf_counter(), Counter()
            for i in range(count):
                case = getattr(fuzz, kind)()
                path = Path(folder) / f"case{case.ending}"
                try:
                    outcomes[run_case(case, path, encoder, classifier)] += 1
                except Exception as error:
                    failures += 1
                    say(failed(kind, i, error, case))
            came = [outcomes[name] for name in ("refused", "read", "predicted")]
            say(f"{kind:<12}{count:>7}{came[0]:>9}{came[1]:>7}{came[2]:>11}"
                f"{time.perf_counter() - start:>9.1f}")  # fmt: skip
        failures += _run_commands(n_commands, seed, folder, model, say)
    say(f"{n_files:,} files, {n_commands:,} commands, seed {seed}: {failures} failures")
    return failures


def failed(kind, i, error, case):
    return f"FAILED {kind} {i}: {type(error).__name__}: {error}\n  {case.data[:300]!r}"


def _run_commands(n_commands, seed, folder, model, say):
    fuzz, codes, failures = Fuzz([seed, 99]), Counter(), 0
    for i in range(n_commands):
        kind = KINDS[i % len(KINDS)]
        case = getattr(fuzz, kind)()
        try:
            path = Path(folder) / f"command{case.ending}"
            codes[run_command(case, path, model, fuzz.rng)] += 1
        except Exception as error:
            failures += 1
            say(failed(f"command {kind}", i, error, case))
    say(f"commands: exit code 0 {codes[0]} times, 1 {codes[1]} times, 2 {codes[2]} times")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--commands", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    raise SystemExit(1 if run(options.files, options.commands, options.seed) else 0)


if __name__ == "__main__":
    main()
