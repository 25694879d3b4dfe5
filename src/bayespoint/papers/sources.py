"""Where the data sets of the papers are published, and how their files are fetched.

Files lie in the folder named by the environment variable ``BAYESPOINT_DATA``, else in
``bayespoint/data`` of the user's cache folder, under the names that they have where they are
published. Checksums are those of the content: of text line by line without spaces at the ends, so
that packing and line ends do not matter.
"""

import gzip
import hashlib
import io
import os
import urllib.request
import zlib
from collections.abc import Callable, Iterable
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from bayespoint.io.model_file.files import replacing

VARIABLE = "BAYESPOINT_DATA"

# The largest file has 75 MB unpacked; anything beyond this is not what was asked for.
MOST_BYTES = 400_000_000
TIMEOUT = 60.0
PIECE = 1 << 20

THERE, FETCHED, SKIPPED, DIFFERS = "there", "fetched", "skipped", "differs"


class Source(NamedTuple):
    """A file of a data set: its name in the folder, its addresses, and its checksum."""

    path: str
    addresses: tuple[str, ...]
    sha256: str
    text: bool = True
    instead: str = ""  # another file that holds the same, packed otherwise


class Outcome(NamedTuple):
    """What became of a file: there, fetched, skipped or differs, and why."""

    source: Source
    status: str
    why: str = ""


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_MNIST = ("http://yann.lecun.com/exdb/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist")
_USPS = "https://hastie.su.domains/ElemStatLearn/datasets"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_RAETSCH = "https://github.com/tdiethe/gunnar_raetsch_benchmark_datasets"


def _uci(file: str, folder: str, sha256: str) -> Source:
    return Source(f"uci/{file}", (f"{_UCI}/{folder}/{file}",), sha256)


def _mnist(part: str, sha256: str) -> Source:
    name = f"{part}-ubyte.gz"
    return Source(f"mnist/{name}", tuple(f"{host}/{name}" for host in _MNIST), sha256, text=False)


_SONAR = "undocumented/connectionist-bench/sonar"

SOURCES: dict[str, tuple[Source, ...]] = {
    "mnist": (
        _mnist(
            "train-images-idx3", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
        ),
        _mnist(
            "train-labels-idx1", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
        ),
        _mnist(
            "t10k-images-idx3", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
        ),
        _mnist(
            "t10k-labels-idx1", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
        ),
    ),
    "usps": (
        Source(
            "usps/zip.train.gz", (f"{_USPS}/zip.train.gz",),
            "fe0995bb03cea1994752e58c13dc873b734ae8c34d073d55db45477598b2aabc",
        ),
        Source(
            "usps/zip.test.gz", (f"{_USPS}/zip.test.gz",),
            "6bde17b4f1cd68e0630cd2751d6495b5795d9165ab2dc4a0be8b7002b732f4cc",
        ),
    ),
    "sonar": (
        _uci(
            "sonar.all-data", _SONAR,
            "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d",
        ),
    ),
    "sonar-angle": (
        _uci(
            "sonar.rocks", _SONAR,
            "d8a3fe47d401531865f72eb703576139fdc340021b4a95c511630785491b0c0e",
        ),
        _uci(
            "sonar.mines", _SONAR,
            "1b22a612d6f8520138eaf18e30f357492dc1d84b851627e07e37102b4a41a7ee",
        ),
    ),
    "ionosphere": (
        _uci(
            "ionosphere.data", "ionosphere",
            "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
        ),
    ),
    "wbc": (
        _uci(
            "breast-cancer-wisconsin.data", "breast-cancer-wisconsin",
            "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
        ),
    ),
    "thyroid": (
        _uci(
            "new-thyroid.data", "thyroid-disease",
            "0760039b928ecba5170f377b8fd96caaf55ed26f9861511c52f81395a9d8227a",
        ),
    ),
    "heart": (
        _uci(
            "heart.dat", "statlog/heart",
            "f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9",
        ),
    ),
    "raetsch": (
        Source(
            "raetsch/benchmarks.mat", (f"{_RAETSCH}/raw/master/benchmarks.mat",),
            "47c19e4bc4716edc4077cfa5ea61edf4d02af4ec51a0ecfe035626ae8b561c75",
            text=False, instead="raetsch/raetsch.npz",
        ),
    ),
    "covtype": (
        Source(
            "covtype/covtype.data.gz", (f"{_UCI}/covtype/covtype.data.gz",),
            "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
            instead="covtype/covtype.npz",
        ),
    ),
    "a9a": (
        Source(
            "a9a/a9a", (f"{_LIBSVM}/a9a",),
            "76b604b2c3f738783537bd3b32893eae66af54b8a41aee534fac1ecea45c1535",
        ),
        Source(
            "a9a/a9a.t", (f"{_LIBSVM}/a9a.t",),
            "0c3135eb9b9d83a4fa007d6e1a3b719f029db78884dafd5a46a4d7eeb4c2b018",
        ),
    ),
}  # fmt: skip


def data_folder() -> Path:
    """Folder of the data sets.

    Returns
    -------
    Path
        That in ``BAYESPOINT_DATA``, else in the user's cache folder.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "bayespoint" / "data"


def addresses(name: str) -> str:
    """Addresses of the files of a set, for messages; empty where none is known."""
    return ", ".join(source.addresses[0] for source in SOURCES.get(name, ()))


def fetch(
    names: Iterable[str] | None = None, folder: str | Path | None = None,
    *, tell: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:  # fmt: skip
    """Download the files of data sets from where they are published.

    Existing files are kept. A download whose content is not the published one is discarded; files
    that cannot be downloaded are skipped.

    Parameters
    ----------
    names : iterable of str, optional
        Keys of ``SOURCES``; by default all of them.
    folder : str or path, optional
        By default `data_folder`.
    tell : callable, optional
        Called with each `Outcome` as it comes.

    Returns
    -------
    list of Outcome

    Examples
    --------
    >>> from bayespoint.papers import sources
    >>> sorted(sources.SOURCES)[:3]
    ['a9a', 'covtype', 'heart']
    >>> sources.fetch([])
    []
    """
    folder = data_folder() if folder is None else Path(folder)
    outcomes = []
    for name in SOURCES if names is None else names:
        for source in SOURCES[name]:
            outcomes.append(_fetch_one(source, folder))
            if tell is not None:
                tell(outcomes[-1])
    return outcomes


def _fetch_one(source: Source, folder: Path) -> Outcome:
    path = found_at(folder / source.path)
    if source.instead and not path.exists() and (folder / source.instead).exists():
        return Outcome(source, THERE, f"as {source.instead}")
    if path.exists():
        same = content_sha256(path.read_bytes(), source.text) == source.sha256
        why = "" if same else f"{path} is not the published file; it is used as it is"
        return Outcome(source, THERE if same else DIFFERS, why)
    reasons = []
    for address in source.addresses:
        try:
            content = _download(address)
        except (OSError, HTTPException, ValueError) as error:
            reasons.append(f"{address}: {error}")
            continue
        if content_sha256(content, source.text) == source.sha256:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as stream:
                stream.write(content)
            return Outcome(source, FETCHED, f"{address} (checksum right)")
        reasons.append(f"{address}: its checksum is not that of the published file")
    return Outcome(source, SKIPPED, "; ".join(reasons))


def _download(address: str) -> bytes:
    if not address.startswith(("http://", "https://")):
        raise ValueError("not an address of the web")
    asked = urllib.request.Request(address, headers={"User-Agent": "bayespoint"})
    with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:
        pieces, size = [], 0
        while piece := answer.read(PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES:,} bytes")
        expected = answer.headers.get("Content-Length")
    if expected is not None and int(expected) != size:
        raise ValueError(f"{size:,} bytes of {expected} came")
    return b"".join(pieces)


def content_sha256(content: bytes, text: bool) -> str:
    r"""Return the checksum of a file's content, whatever it is packed in and its line ends are.

    Examples
    --------
    >>> from bayespoint.papers.sources import content_sha256
    >>> content_sha256(b"1,2 \r\n", True) == content_sha256(b"1,2\n\n", True)
    True
    """
    try:
        content = unpacked(content)
    except (OSError, EOFError, zlib.error):
        return ""  # of no file
    if not text:
        return hashlib.sha256(content).hexdigest()
    lines = (line.rstrip() for line in content.splitlines())
    return hashlib.sha256(b"".join(line + b"\n" for line in lines if line)).hexdigest()


def found_at(path: Path) -> Path:
    """Return the path of a file that may be packed, with or without .gz in its name."""
    other = path.with_suffix("") if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
    return other if other.exists() and not path.exists() else path


def unpacked(content: bytes) -> bytes:
    """Return content that may be packed by gzip."""
    if content[:2] != b"\x1f\x8b":
        return content
    with gzip.open(io.BytesIO(content)) as packed:
        found = packed.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise gzip.BadGzipFile(f"{len(content):,} bytes unpack to more than {MOST_BYTES:,}")
    return found
