"""Data sets of the papers, from a folder or from OpenML.

The folder is named by the environment variable ``BAYESPOINT_DATA``; in it each set has the files
that its authors published: MNIST's four IDX files in ``mnist/``, USPS as ``usps/zip.train.gz``
and ``usps/zip.test.gz``; covertype is packed as ``covtype/covtype.npz`` (arrays num, wilderness,
soil, y).
"""

import gzip
import os
from pathlib import Path

import numpy as np

VARIABLE = "BAYESPOINT_DATA"


class DataNotFoundError(LookupError):
    """Neither the folder nor OpenML has the data set."""


def load(name):
    """Load a data set by name.

    Parameters
    ----------
    name : {"covtype", "mnist", "usps"}

    Returns
    -------
    X_train, y_train, X_test, y_test : ndarray
        Features as published: grey values 0 to 255 (mnist), -1 to 1 (usps). Sets without a
        split of their own (covtype) give X and y only.

    Raises
    ------
    DataNotFoundError
        With the places that were tried.

    Examples
    --------
    >>> from bayespoint import datasets
    >>> sorted(datasets.READERS)
    ['covtype', 'mnist', 'usps']
    """
    if name not in READERS:
        raise ValueError(f"name must be one of {sorted(READERS)}; got {name!r}.")
    folder = os.environ.get(VARIABLE)
    tried = f"{VARIABLE} is not set"
    if folder:
        try:
            return READERS[name](Path(folder))
        except FileNotFoundError as error:
            tried = f"{error.filename} is missing"
    try:
        return _from_openml(name)
    except OSError as error:
        raise DataNotFoundError(
            f"data set {name!r} was not found: {tried}, and OpenML does not answer ({error}). "
            f"Set {VARIABLE} to a folder that holds it."
        ) from error


def _from_openml(name):
    from sklearn.datasets import fetch_covtype, fetch_openml

    if name == "covtype":
        X, y = fetch_covtype(return_X_y=True)
        return X, y.astype(np.int64) - 1
    # Both are stored as one table, the training rows first.
    data_id, n_train = {"mnist": (554, 60_000), "usps": (41_082, 7_291)}[name]
    X, y = fetch_openml(data_id=data_id, return_X_y=True, as_frame=False, parser="liac-arff")
    y = y.astype(np.int64) - (name == "usps")  # OpenML numbers the digits of USPS from 1
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def _read_idx(path):
    """Read MNIST's own format: a header of big-endian sizes, then unsigned bytes."""
    with gzip.open(path) as file:
        content = file.read()
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def _mnist(folder):
    parts = []
    for part in ("train", "t10k"):
        images = _read_idx(folder / "mnist" / f"{part}-images-idx3-ubyte.gz")
        labels = _read_idx(folder / "mnist" / f"{part}-labels-idx1-ubyte.gz")
        parts += [images.reshape(len(images), -1), labels.astype(np.int64)]
    return tuple(parts)


def _usps(folder):
    parts = []
    for part in ("train", "test"):
        with gzip.open(folder / "usps" / f"zip.{part}.gz", "rt") as file:
            table = np.loadtxt(file)
        parts += [table[:, 1:], table[:, 0].astype(np.int64)]
    return tuple(parts)


def _covtype(folder):
    packed = np.load(folder / "covtype" / "covtype.npz", allow_pickle=False)
    y = packed["y"].astype(np.int64) - 1
    categories = np.zeros((len(y), 44), dtype=np.int16)
    categories[np.arange(len(y)), packed["wilderness"]] = 1
    categories[np.arange(len(y)), 4 + packed["soil"].astype(np.int64)] = 1
    return np.hstack([packed["num"].astype(np.int16), categories]), y


READERS = {"covtype": _covtype, "mnist": _mnist, "usps": _usps}
