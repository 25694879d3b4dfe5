"""Saving, loading and describing model files."""

import errno
import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from sklearn.utils.validation import check_is_fitted

from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file.errors import ModelFileError, one_line, shown
from bayespoint.io.model_file.estimators import decode_classifier, encode_classifier
from bayespoint.io.model_file.layout import JSON_NAME, check_sizes
from bayespoint.io.model_file.reading import Reader
from bayespoint.io.model_file.writing import Writer, strict_json
from bayespoint.io.tables import PathName, printable

FORMAT = "bayespoint model"
SCHEMA = 1

# From the document of a version to that of the next one, for every version before this one. A new
# version adds its function here, and a stored file of the old one to the tests.
UPGRADES: dict[int, Callable[[dict], dict]] = {}

# Characters of a folder's name in messages, and bytes of a file's name in that of its temporary
# one: file systems take 255.
SHOWN_FOLDER = 200
KEPT_NAME = 100

# What file systems say that cannot bring a folder to the disk.
_NO_SYNC = (errno.EINVAL, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP)

_KEYS = {"format", "schema", "bayespoint", "classifier", "encoder", "about"}


class Model(NamedTuple):
    """What a model file holds.

    Attributes
    ----------
    classifier : BayesPointClassifier, RejectingClassifier or OnionClassifier
    encoder : TableEncoder or None
        Turns raw columns into the features that the classifier takes.
    about : dict
        What was noted when it was saved, of plain JSON types.

    Examples
    --------
    >>> from bayespoint.io.model_file import Model
    >>> Model(None, None, {"title": "first try"}).about
    {'title': 'first try'}
    """

    classifier: Any
    encoder: TableEncoder | None
    about: dict[str, Any]


def _learnt(classifier: Any) -> None:
    """Let a classifier learn the rows that wait in it: files hold none."""
    inner = [getattr(classifier, name, None) for name in ("estimator", "estimator_")]
    for one in (classifier, *inner):
        if isinstance(one, BayesPointClassifier) and hasattr(one, "predictor_"):
            one.absorb()


def _without_held_out(classifier: Any) -> Any:
    """Return a copy that does not say what it said of its training rows."""
    other = copy(classifier)
    if hasattr(classifier, "trained_"):
        other.trained_ = replace(classifier.trained_, held_out=None)
    if isinstance(classifier, RejectingClassifier) and hasattr(classifier, "estimator_"):
        other.estimator_ = _without_held_out(classifier.estimator_)
        same = classifier.estimator_ is classifier.estimator
        other.estimator = other.estimator_ if same else _without_held_out(classifier.estimator)
    return other


def save(
    path: PathName, classifier: Any, *, encoder: TableEncoder | None = None,
    about: dict[str, Any] | None = None, held_out: bool = False,
) -> None:  # fmt: skip
    """Write a fitted classifier to a file, completely or not at all.

    The file holds training rows: those with a coefficient, for votes all of them. Rows that
    `partial_fit` has been given but has not learnt yet are learnt first. An existing file is
    replaced only once the new one is complete on disk.

    Parameters
    ----------
    path : str or path-like
        Name of the file, usually with the extension ``.bpm``.
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
        Fitted classifier. A `RejectingClassifier` must wrap one of the other two. Kernels and
        confidences that are functions are refused.
    encoder : TableEncoder, optional
        Encoder of raw columns, stored with the classifier.
    about : dict, optional
        Notes of plain JSON types: strings, numbers, lists, dicts.
    held_out : bool, default=False
        Whether to store ``held_out_proba_`` as well, if the classifier has it.

    Raises
    ------
    ModelFileError
        If the classifier holds something that a model file cannot.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.io import model_file
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesPointClassifier(gamma=0.2, softness=0.1, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "iris.bpm"
    ...     model_file.save(path, clf)
    ...     again = model_file.load(path).classifier
    >>> bool((again.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """
    check_is_fitted(classifier)
    _learnt(classifier)
    classifier = classifier if held_out else _without_held_out(classifier)
    about = _plain_json("about", {} if about is None else about)
    state = None
    if encoder is not None:
        _check_features(classifier, encoder)
        state = _plain_json("encoder", encoder.to_state())
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ModelFileError(f"{_shown_path(path)}: not a plain file; give another name.")
    with replacing(target) as stream:
        for deflate in (True, False):  # zeros that shrink too well are stored as they are
            stream.seek(0)
            stream.truncate()
            if _write(stream, classifier, state, about, deflate):
                break


def _write(
    stream: IO[bytes], classifier: Any, encoder: Any, about: dict[str, Any], deflate: bool
) -> bool:
    """Write a file, and say whether it keeps to the caps of reading."""
    with Writer(stream, deflate=deflate) as writer:
        node = encode_classifier(classifier, writer)
        writer.finish(
            {
                "format": FORMAT, "schema": SCHEMA, "bayespoint": _version(), "classifier": node,
                "encoder": encoder, "about": about,
            }
        )  # fmt: skip
    try:
        check_sizes(writer.members, stream.tell())
    except ModelFileError:
        if deflate:
            return False
        raise
    return True


def _version() -> str:
    return sys.modules["bayespoint"].__version__  # importing it would import rooms above this one


def _check_features(classifier: Any, encoder: TableEncoder) -> None:
    n_made, n_taken = len(encoder.feature_names_), classifier.n_features_in_
    if n_made != n_taken:
        raise ModelFileError(f"encoder makes {n_made} features; the classifier takes {n_taken}.")


def load(path: PathName) -> Model:
    """Read a model file. Nothing in it is run, and every value is checked.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Model
        ``classifier``, ``encoder`` (or None) and ``about``. The classifier is equal to the one
        saved to the last bit.

    Raises
    ------
    ModelFileError
        If the file is damaged, not a model, or of a later version.

    Examples
    --------
    >>> from bayespoint.io import model_file
    >>> model_file.load("missing.bpm")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'missing.bpm'
    """
    with _opened(path) as reader:
        document = _current(reader.document)
        classifier = decode_classifier(document["classifier"], reader)
        check_is_fitted(classifier)
        reader.finish()
        encoder = None
        if document["encoder"] is not None:
            encoder = TableEncoder.from_state(document["encoder"])
            _check_features(classifier, encoder)
        return Model(classifier, encoder, document["about"])


def describe(path: PathName) -> dict[str, Any]:
    """Describe the content of a model file, without reading its arrays.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    dict
        Of plain JSON types. Strings come from the file: make them printable before you show
        them.

    Raises
    ------
    ModelFileError
        As for `load`; hashes and values of arrays are not checked.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.io import model_file
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesPointClassifier(gamma=0.2, softness=0.1, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model_file.save(Path(folder) / "iris.bpm", clf)
    ...     found = model_file.describe(Path(folder) / "iris.bpm")
    >>> found["class"], found["classes"], found["training_rows_inside"]
    ('BayesPointClassifier', [0, 1, 2], 149)
    """
    from bayespoint.io.model_file.description import described

    with _opened(path) as reader:
        return described(_current(reader.document), reader.document["schema"], reader)


# ---------------------------------------------------------------------- steps


def _current(document: dict[str, Any]) -> dict[str, Any]:
    """Bring the document of any version to the current one."""
    if document.get("format") != FORMAT:
        raise ModelFileError(f"not a bayespoint model file: {JSON_NAME} has other content.")
    schema = document.get("schema")
    if type(schema) is not int or schema < 1:
        raise ModelFileError(f"schema version {shown(schema)} is not a version.")
    if schema > SCHEMA:
        raise ModelFileError(
            f"schema version {shown(schema)}, written by bayespoint "
            f"{shown(document.get('bayespoint'))}; this version reads up to {SCHEMA}. Upgrade: "
            f"pip install --upgrade bayespoint"
        )
    for version in range(schema, SCHEMA):
        document = UPGRADES[version](document)
    if document.keys() != _KEYS:
        raise ModelFileError(f"{JSON_NAME} has {shown(sorted(document))}, not {sorted(_KEYS)}.")
    if not isinstance(document["about"], dict) or not isinstance(document["bayespoint"], str):
        raise ModelFileError(f"{JSON_NAME} has notes or a version of the wrong type.")
    return document


@contextmanager
def _opened(path: PathName) -> Iterator[Reader]:
    """Open a file, and turn whatever goes wrong with it into one error of one line."""
    name = _shown_path(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ModelFileError(f"{name}: not a plain file.")
    try:
        with open(path, "rb") as stream:
            yield Reader(stream)
    except PermissionError:
        raise
    except MemoryError:
        raise ModelFileError(f"{name}: the model does not fit into memory.") from None
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None
    except Exception as error:  # a hostile file may fail anywhere in zip, JSON or NumPy
        # That of the system alone: its error names the file once more.
        text = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ModelFileError(
            f"{name}: damaged, or not a model: {type(error).__name__}: {one_line(text)}"
        ) from error


def _shown_path(path: PathName) -> str:
    """Path for messages, safe to print; a long name is cut as it is everywhere."""
    path = Path(os.fsdecode(path))
    name = printable(path.name)
    return name if path.parent == Path() else str(Path(printable(path.parent, SHOWN_FOLDER), name))


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Give a new file beside the target; it takes the target's place once it is on disk.

    A file that is there keeps its rights. What is there and no plain file, such as a folder, a pipe
    or a device, is refused.
    """
    mode = _mode_of(target)
    start = target.name.encode("utf-8", "ignore")[:KEPT_NAME].decode("utf-8", "ignore")
    temporary = target.with_name(f".{start}.{secrets.token_hex(8)}.tmp")

    # From the start for no one who may not read the file it replaces.
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o666 if mode is None else mode)

    try:
        with open(temporary, "xb+", opener=opener) as stream:
            if mode is not None and hasattr(os, "fchmod"):
                with suppress(OSError):  # a file system without rights
                    os.fchmod(stream.fileno(), mode)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _mode_of(target: Path) -> int | None:
    """Rights of the file at a path, or None where there is none; refuse what is not a file."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        reason = "not a plain file; give another name"
        raise FileExistsError(errno.EEXIST, reason, os.fspath(target))
    return mode & 0o777


def _sync_folder(folder: Path) -> None:
    """Make a new name last; where folders cannot be opened or synchronised, the system does."""
    if os.name == "nt":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:  # the file has its name already
        if error.errno not in _NO_SYNC:
            raise


def _plain_json(name: str, value: Any) -> dict[str, Any]:
    """Return a copy of a dict of plain JSON types; refuse others."""
    try:
        copy = json.loads(strict_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} must be of plain JSON types: {error}") from None
    if not isinstance(value, dict) or copy != value:
        raise ModelFileError(f"{name} must be a dict with texts as keys, and no tuples in it.")
    return copy
