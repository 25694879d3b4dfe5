"""Data sets of the papers, from a folder or from OpenML.

The folder is that of `bayespoint.papers.sources`; in it each set has the files that its authors
published: MNIST's four IDX files in ``mnist/``, USPS as ``usps/zip.train.gz`` and
``usps/zip.test.gz``, LIBSVM's ``a9a/a9a`` and ``a9a/a9a.t``, ``covtype/covtype.data.gz`` and the
other sets of the UCI repository in ``uci/`` under the names they have there, and Rätsch's sets as
``raetsch/benchmarks.mat``. Text may be packed by gzip, or not. Two may be packed otherwise:
covertype as ``covtype/covtype.npz`` (arrays num, wilderness, soil, y) and Rätsch's sets as
``raetsch/raetsch.npz`` (for each set NAME.x, NAME.t for the labels, NAME.train, a line of training
rows, counted from 0, for each split, and NAME.original: which are Rätsch's own).
"""

import io
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from bayespoint._support.types import Array
from bayespoint.papers import raetsch as raetsch_sets
from bayespoint.papers.sources import VARIABLE, addresses, data_folder, found_at, unpacked

# X and y, of the training and then of the test points where a set is split.
Arrays: TypeAlias = tuple[Array, ...]


class DataNotFoundError(LookupError):
    """Neither the folder nor OpenML has the data set; the message says where it is published."""


class _Table(NamedTuple):
    """A text file of UCI, one row per line, that OpenML may have too."""

    file: str
    labels: dict[str, int]  # by the words of the file and of OpenML
    label: int = -1  # the column of the label
    features: slice = slice(-1)


TABLES = {
    "heart": _Table("heart.dat", {"1": -1, "2": 1, "absent": -1, "present": 1}),
    "ionosphere": _Table("ionosphere.data", {"b": -1, "g": 1}),
    "pima": _Table(
        "pima-indians-diabetes.data",
        {"0": -1, "1": 1, "tested_negative": -1, "tested_positive": 1},
    ),
    "sonar": _Table("sonar.all-data", {"R": -1, "M": 1, "Rock": -1, "Mine": 1}),
    "thyroid": _Table("new-thyroid.data", {"1": 0, "2": 1, "3": 2}, 0, slice(1, None)),
    "wbc": _Table(
        "breast-cancer-wisconsin.data",
        {"2": -1, "4": 1, "benign": -1, "malignant": 1},
        features=slice(1, -1),  # the first column is a patient's number
    ),
}

# Numbers of the data sets on OpenML.
OPENML = {
    "banana": 1460, "heart": 53, "ionosphere": 59, "mnist": 554, "pima": 37, "sonar": 40,
    "usps": 41_082, "wbc": 15,
}  # fmt: skip

RAETSCH = dict.fromkeys(
    ("banana", "breast-cancer", "diabetis", "flare-solar", "german", "heart", "image", "ringnorm",
     "splice", "thyroid", "titanic", "twonorm", "waveform"), 100,
) | {"image": 20, "splice": 20}  # fmt: skip


def load(name: str) -> Arrays:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        With a split of its own: "a9a", "mnist", "sonar-angle" (the split by aspect angle of
        Gorman and Sejnowski) or "usps". Without: "covtype", "heart" (Statlog), "ionosphere",
        "pima", "sonar", "thyroid" (UCI's new-thyroid) or "wbc" (Wisconsin breast cancer, the
        683 complete rows).

    Returns
    -------
    X_train, y_train, X_test, y_test : ndarray
        Features as published: grey values 0 to 255 (mnist), -1 to 1 (usps), 0 or 1 (a9a). Sets
        without a split of their own give X and y only, in the order of the file. Two classes are
        -1 and +1, where +1 is over 50K (a9a), present (heart), good (ionosphere), diabetes
        (pima), mine (sonar) or malignant (wbc); more classes count from 0.

    Raises
    ------
    DataNotFoundError
        With the places that were tried.

    Examples
    --------
    >>> from bayespoint.papers import datasets
    >>> sorted(datasets.READERS)
    ['a9a', 'covtype', 'heart', 'ionosphere', 'mnist', 'pima', 'sonar', 'sonar-angle', 'thyroid',
     'usps', 'wbc']
    """
    _check_name(name, READERS)
    try:
        return _from_folder(READERS[name])
    except DataNotFoundError as error:
        tried = str(error)
    if name not in {"covtype", *OPENML}:
        raise _not_found(name, f"{tried}, and OpenML does not have it")
    try:
        return _from_openml(name)
    except OSError as error:
        raise _not_found(name, f"{tried}, and OpenML does not answer ({error})") from error


def raetsch(name: str, split: int) -> Arrays:
    """Load a split of one of Rätsch's benchmark sets.

    The sets and the sizes of their splits are those of [1]_. Which rows are in a split is read
    from the folder. Where it has no file of them, heart, thyroid, diabetis, banana and waveform are
    made from published rows, or by their published recipe, with splits by a seed: compare a single
    split with a published one only where `raetsch_origin` says that it is Rätsch's own.

    Parameters
    ----------
    name : str
        One of the names in ``RAETSCH``, such as "banana".
    split : int
        From 1 to ``raetsch_splits(name)``.

    Returns
    -------
    X_train, y_train, X_test, y_test : ndarray
        Features scaled as published, labels -1 and +1.

    Raises
    ------
    DataNotFoundError
        With what is missing.

    References
    ----------
    .. [1] G. Rätsch, T. Onoda and K.-R. Müller, "Soft margins for AdaBoost", Machine Learning
       42, 2001.
    """
    n_splits = raetsch_splits(name)
    if not isinstance(split, int | np.integer) or not 1 <= split <= n_splits:
        raise ValueError(
            f"split must be an integer from 1 to {n_splits} for {name!r}; got {split!r}."
        )
    found = raetsch_sets.read_split(data_folder(), name, int(split))
    if found is not None:
        return found
    if name not in raetsch_sets.MADE:
        raise _not_found("raetsch", f"{data_folder() / 'raetsch'} has no file of {name!r}")
    return raetsch_sets.made_split(name, int(split), _load_rows)


def raetsch_origin(name: str) -> str:
    """Say where the splits of one of Rätsch's benchmark sets come from.

    Parameters
    ----------
    name : str
        One of the names in ``RAETSCH``.

    Returns
    -------
    str
    """
    _check_name(name, RAETSCH)
    return raetsch_sets.origin(data_folder(), name)


def _load_rows(name: str) -> Arrays:
    if name != "banana":
        return load(name)
    try:
        return _from_openml(name)
    except OSError as error:
        tried = f"OpenML's data set {OPENML[name]} does not answer ({error})"
        raise _not_found("raetsch", tried) from error


def raetsch_splits(name: str) -> int:
    """Number of splits of one of Rätsch's benchmark sets.

    Parameters
    ----------
    name : str
        One of the names in ``RAETSCH``.

    Returns
    -------
    n_splits : int

    Examples
    --------
    >>> from bayespoint.papers import datasets
    >>> datasets.raetsch_splits("banana"), datasets.raetsch_splits("splice")
    (100, 20)
    """
    _check_name(name, RAETSCH)
    return RAETSCH[name]


def _check_name(name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(f"name must be one of {sorted(known)}; got {name!r}.")


def _not_found(name: str, tried: str) -> DataNotFoundError:
    home, fetch = addresses(name), "fetch it by bayespoint reproduce --fetch, or "
    if not home:  # as of pima
        home, fetch = f"https://www.openml.org/d/{OPENML[name]}", ""
    return DataNotFoundError(
        f"data set {name!r} was not found: {tried}. It is published at {home}: {fetch}set "
        f"{VARIABLE} to a folder that holds it."
    )


def _from_folder(reader: Callable[[Path], Arrays]) -> Arrays:
    try:
        return reader(data_folder())
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{error.filename} is missing") from error


def _content(path: Path) -> bytes:
    return unpacked(found_at(path).read_bytes())


def _from_openml(name: str) -> Arrays:
    from sklearn.datasets import fetch_covtype, fetch_openml

    if name == "covtype":
        X, y = fetch_covtype(return_X_y=True)
        return X, y.astype(np.int64) - 1
    X, y = fetch_openml(data_id=OPENML[name], return_X_y=True, as_frame=False, parser="liac-arff")
    if name in TABLES:
        return _complete(name, X, y)
    if name == "banana":
        return X, np.where(y.astype(np.int64) == 2, 1, -1)
    # Both are stored as one table, the training rows first.
    n_train = {"mnist": 60_000, "usps": 7_291}[name]
    y = y.astype(np.int64) - (name == "usps")  # OpenML numbers the digits of USPS from 1
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def _complete(name: str, X: Array, words: Array) -> Arrays:
    """Return the rows without missing values, with numbers for the words of their labels."""
    labels = TABLES[name].labels
    if unknown := set(words.tolist()) - set(labels):
        raise ValueError(
            f"data set {name!r} has labels {sorted(unknown)}; expected {sorted(labels)}."
        )
    y = np.array([labels[word] for word in words], dtype=np.int64)
    complete = ~np.isnan(X).any(axis=1)
    return X[complete], y[complete]


def _read_idx(path: Path) -> Array:
    """Read MNIST's own format: a header of big-endian sizes, then unsigned bytes."""
    content = _content(path)
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def _mnist(folder: Path) -> Arrays:
    parts = []
    for part in ("train", "t10k"):
        images = _read_idx(folder / "mnist" / f"{part}-images-idx3-ubyte.gz")
        labels = _read_idx(folder / "mnist" / f"{part}-labels-idx1-ubyte.gz")
        parts += [images.reshape(len(images), -1), labels.astype(np.int64)]
    return tuple(parts)


def _usps(folder: Path) -> Arrays:
    parts = []
    for part in ("train", "test"):
        table = np.loadtxt(io.BytesIO(_content(folder / "usps" / f"zip.{part}.gz")))
        parts += [table[:, 1:], table[:, 0].astype(np.int64)]
    return tuple(parts)


def _covtype(folder: Path) -> Arrays:
    path = folder / "covtype" / "covtype.npz"
    if not path.exists():
        text = io.BytesIO(_content(path.with_name("covtype.data.gz")))
        table = np.loadtxt(text, delimiter=",", dtype=np.int16)
        return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64) - 1
    packed = np.load(path, allow_pickle=False)
    y = packed["y"].astype(np.int64) - 1
    categories = np.zeros((len(y), 44), dtype=np.int16)
    categories[np.arange(len(y)), packed["wilderness"]] = 1
    categories[np.arange(len(y)), 4 + packed["soil"].astype(np.int64)] = 1
    return np.hstack([packed["num"].astype(np.int16), categories]), y


def _table(folder: Path, name: str) -> Arrays:
    table = TABLES[name]
    text = _content(folder / "uci" / table.file).decode("latin-1")
    text = text.replace(",", " ").replace("?", "nan")
    cells = np.array([line.split() for line in text.splitlines() if line.strip()])
    return _complete(name, cells[:, table.features].astype(float), cells[:, table.label])


def _sonar_angle(folder: Path) -> Arrays:
    """Read blocks of a name and {numbers}; a star before the name marks the training rows."""
    rows = []
    for file, label in (("sonar.rocks", -1), ("sonar.mines", 1)):
        text = _content(folder / "uci" / file).decode("latin-1")
        for block in text.split("}")[:-1]:
            before, numbers = block.split("{")
            star = before.split()[-1].startswith("*")
            rows.append([*numbers.split(), label, star])
    table = np.array(rows, dtype=float)
    X, y, training = table[:, :-2], table[:, -2].astype(np.int64), table[:, -1] == 1
    return X[training], y[training], X[~training], y[~training]


def _a9a(folder: Path) -> Arrays:
    from sklearn.datasets import load_svmlight_file

    parts = []
    for file in ("a9a", "a9a.t"):
        content = io.BytesIO(_content(folder / "a9a" / file))
        X, y = load_svmlight_file(content, n_features=123, zero_based=False)
        parts += [X.toarray().astype(np.uint8), y.astype(np.int64)]
    return tuple(parts)


READERS: dict[str, Callable[..., Arrays]] = {
    "a9a": _a9a,
    "covtype": _covtype,
    "mnist": _mnist,
    "sonar-angle": _sonar_angle,
    "usps": _usps,
} | {name: partial(_table, name=name) for name in TABLES}
