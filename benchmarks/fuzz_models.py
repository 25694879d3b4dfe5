"""Model files under attack: mutated files, processes killed while saving, threads and forks.

    python benchmarks/fuzz_models.py [--mutants 1000] [--kills 200] [--no-train] [--seed 0]

- mutants: bits flipped, bytes cut, members swapped, doubled and dropped, JSON and arrays changed
  with hashes made right. Each file is refused in one line, or loads and predicts the same; where
  hashes were made right it may be another, valid model, which must predict without a crash.
- kills: SIGKILL while models are saved over each other, while a model is trained and saved, and
  during `bayespoint train` (not with --no-train), at moments that are spread over the whole run:
  one at random in each of as many equal parts as there are kills, tried again where the run was
  over before. The file is one of those that were saved, complete.
- threads: predictions from 8 threads at once and after a fork are those of one thread.

One line a part; the exit status is 1 if anything went wrong.
"""

import argparse
import copy
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_iris

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError
from bayespoint.io.model_file.layout import npy_header

FIXED = {"gamma": 0.2, "softness": 0.1, "random_state": 0}
N_THREADS = 8

# A run that was over before it was killed takes this share of what was thought.
SHORTER = 0.9

# Values that JSON is changed to.
JUNK = (
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**63, 10**30, -1.0, 0.5, 1e300, "", "rbf", "vote",
    "\x1b[31m", "../x", [], {}, [0], [[]], {"array": 0}, {"array": 10**6}, {"float": "nan"},
    {"float": "inf"}, {"csr": []}, {"values": ["|O", [1], [0]]}, {"tuple": [1]},
    {"pairs": [[1, 2]]}, 10**400, {"scalar": ["<U999999", "a"]},
    {"values": ["<U999999", [60], ["a"] * 60]},
)  # fmt: skip


def models():
    """Small models of every kind."""
    X, y = load_iris(return_X_y=True)
    rows = np.arange(0, 150, 3)
    names = np.array(["setosa", "versicolor", "virginica"])
    two, few, many = rows[rows < 100], {"n_draws": 4, **FIXED}, {"n_draws": 8, **FIXED}
    sparse = sp.csr_matrix(np.where(X > 1, X, 0))
    perceptrons = BayesPointClassifier(inference="perceptron", **many)
    grouped = BayesPointClassifier(inference="ep", feature_groups=["a", "b", "b", 3], **few)
    grouped.fit(X[two], y[two])
    assert grouped.feature_importances_.shape == (4,)  # which files hold once they were asked for
    yield grouped, X
    yield perceptrons.fit(sparse[rows], names[y[rows]]), sparse
    inner = BayesPointClassifier(inference="billiard", label_noise=0.05, **few)
    yield RejectingClassifier(inner, coverage=0.8, cv=2).fit(X[rows], y[rows]), X
    yield OnionClassifier(depth=1, n_draws=100, random_state=0).fit(X[two], y[two]), X
    K = X @ X.T
    given = BayesPointClassifier(kernel="precomputed", inference="ep", **few)
    yield given.fit(K[np.ix_(two, two)], y[two]), K[:, two]


def answers(clf, X):
    """All that a classifier says, as bytes."""
    parts = [clf.predict_proba(X), clf.decision_function(X)]
    said = json.dumps(clf.predict(X).tolist()).encode()
    return said + b"".join(part.tobytes() for part in parts)


# ---------------------------------------------------------------------- mutants


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def zipped(members):
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members:
                with archive.open(name, "w") as member:
                    member.write(content)
    return buffer.getvalue()


def flip_bits(content, rng):
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
    return bytes(changed)


def flip_directory(content, rng):
    """Flip bits where sizes, places and names are."""
    changed = bytearray(content)
    start = content.index(b"PK\1\2")
    changed[rng.integers(start, len(changed))] ^= 1 << rng.integers(8)
    return bytes(changed)


def cut(content, rng):
    start, length = rng.integers(len(content)), rng.integers(1, len(content))
    return content[:start] if rng.integers(2) else content[:start] + content[start + length :]


def double_bytes(content, rng):
    start, stop = np.sort(rng.integers(len(content), size=2))
    return content[:stop] + content[start:]


def swap_members(content, rng):
    members = members_of(content)
    i, j = rng.choice(len(members), 2, replace=False)
    (a, one), (b, other) = members[i], members[j]
    members[i], members[j] = (a, other), (b, one)
    return zipped(members)


def double_member(content, rng):
    members = members_of(content)
    return zipped([*members, members[rng.integers(len(members))]])


def drop_member(content, rng):
    members = members_of(content)
    del members[rng.integers(len(members))]
    return zipped(members)


def rename_member(content, rng):
    members = members_of(content)
    i = rng.integers(len(members))
    name = ("../x", "/etc/x", "arrays/-1.npy", "arrays/1.NPY", "model.json/", "x" * 300)
    members[i] = str(rng.choice(name)), members[i][1]
    return zipped(members)


def opened(content):
    members = dict(members_of(content))
    return members, json.loads(members["model.json"])


def closed(members, document):
    """Zip with hashes made right."""
    records = document.get("arrays")
    for number, record in enumerate(records if isinstance(records, list) else []):
        if isinstance(record, dict) and f"arrays/{number}.npy" in members:
            record["sha256"] = hashlib.sha256(members[f"arrays/{number}.npy"]).hexdigest()
    members["model.json"] = json.dumps(document).encode()
    return zipped(members.items())


def change_json(content, rng):
    members, document = opened(content)
    parent, key = document, rng.choice(list(document))
    while isinstance(parent[key], dict | list) and len(parent[key]) and rng.random() < 0.9:
        parent = parent[key]
        key = rng.choice(list(parent)) if isinstance(parent, dict) else rng.integers(len(parent))
    if rng.random() < 0.15:
        del parent[key]
    else:
        parent[key] = copy.deepcopy(JUNK[rng.integers(len(JUNK))])
    return closed(members, document)


def add_json(content, rng):
    members, document = opened(content)
    classifier = document["classifier"]
    places = [document, classifier, classifier["fitted"], classifier["parameters"]]
    name = ("predict", "__class__", "__reduce__", "estimator_", "extra")
    places[rng.integers(4)][str(rng.choice(name))] = JUNK[rng.integers(len(JUNK))]
    return closed(members, document)


def chosen_array(content, rng):
    members, document = opened(content)
    number = int(rng.integers(len(document["arrays"])))
    array = np.load(io.BytesIO(members[f"arrays/{number}.npy"]), allow_pickle=False)
    return members, document, number, array


def with_array(members, document, number, array):
    array = np.ascontiguousarray(array)
    header = npy_header(array.dtype.str, "C", array.shape)
    members[f"arrays/{number}.npy"] = header + array.tobytes()
    document["arrays"][number] |= {
        "dtype": array.dtype.str, "shape": list(array.shape), "order": "C",
    }  # fmt: skip
    return closed(members, document)


def change_values(content, rng):
    """Change numbers: indices out of range, NaN, infinity, other values."""
    members, document, number, array = chosen_array(content, rng)
    flat = array.reshape(-1).copy()
    if flat.size:
        at = rng.integers(flat.size, size=rng.integers(1, 4))
        if flat.dtype.kind == "f":
            flat[at] = rng.choice([np.nan, np.inf, -1e300, 0.0, 0.3])
        elif flat.dtype.kind == "b":
            flat[at] ^= True
        else:
            info = np.iinfo(flat.dtype)
            wrong = [-1, flat.max() + 1, len(flat), 10**6, info.max, info.min, 0, 1]
            flat[at] = np.array(wrong[rng.integers(len(wrong))]).astype(flat.dtype)
    return with_array(members, document, number, flat.reshape(array.shape))


def change_shape(content, rng):
    members, document, number, array = chosen_array(content, rng)
    changes = (
        lambda a: a.reshape(-1), lambda a: a[None], lambda a: a[:-1], lambda a: a[..., :-1],
        lambda a: a.T, lambda a: np.concatenate([a, a]), lambda a: a[:0], lambda a: a[::-1],
    )  # fmt: skip
    changed = changes[rng.integers(len(changes))](np.atleast_1d(array))
    return with_array(members, document, number, changed)


def change_type(content, rng):
    members, document, number, array = chosen_array(content, rng)
    dtype = rng.choice(["f4", "f8", "i4", "i8", "u1", "?", "i1", "u8"])
    with np.errstate(invalid="ignore"):
        return with_array(members, document, number, array.astype(dtype))


def lie_about_shape(content, rng):
    members, document, number, _ = chosen_array(content, rng)
    shapes = ([2**40], [2**62, 4], [0], [10**6, 10**6], [-1], [1, 1, 1, 1, 1], "x", None)
    document["arrays"][number]["shape"] = shapes[rng.integers(len(shapes))]
    return closed(members, document)


# Whether hashes are right afterwards, so that another valid model may be the result.
MUTATIONS = {
    flip_bits: False, flip_directory: False, cut: False, double_bytes: False, swap_members: False,
    double_member: False, drop_member: False, rename_member: False, change_json: True,
    add_json: True, change_values: True, change_shape: True, change_type: True,
    lie_about_shape: False,
}  # fmt: skip


def fuzz_mutants(n_mutants, seed, folder):
    """Count what became of mutated files; return what went wrong."""
    rng = np.random.default_rng([seed, 1])
    originals = []
    for number, (clf, X) in enumerate(models()):
        path = folder / f"{number}.bpm"
        model_file.save(path, clf)
        originals.append((path.read_bytes(), X, answers(clf, X)))
    counts, wrong = Counter(), []
    path = folder / "mutant.bpm"
    for number in range(n_mutants):
        mutate = list(MUTATIONS)[number % len(MUTATIONS)]
        content, X, expected = originals[rng.integers(len(originals))]
        path.write_bytes(mutate(content, rng))
        try:
            outcome = fate(path, X, expected, MUTATIONS[mutate])
        except Exception as error:
            outcome = "wrong"
            wrong.append(f"mutant {number} ({mutate.__name__}): {type(error).__name__}: {error}")
        counts[outcome] += 1
    print(
        f"{n_mutants} mutants: {counts['refused']} refused, {counts['equal']} loaded equal, "
        f"{counts['another']} were other valid models, {counts['unusable']} of these with settings "
        f"that predict refuses; {counts['wrong']} wrong"
    )
    return wrong


def fate(path, X, expected, may_differ):
    """What became of one file; an error where that must not be."""
    with suppress(ModelFileError):
        model_file.describe(path)
    try:
        clf = model_file.load(path).classifier
    except ModelFileError as error:
        text = str(error)
        if "\n" in text or not text.isprintable() or len(text) > 600 + len(str(path)):
            raise AssertionError(f"the message is not one short line: {text!r}") from None
        return "refused"
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = answers(clf, X)
    except ValueError:
        if may_differ:
            return "unusable"
        raise
    if found == expected:
        return "equal"
    if may_differ:
        return "another"
    raise AssertionError("it loaded, and predicts otherwise")


# ---------------------------------------------------------------------- kills


def complete(path, contents):
    """Say what is wrong with a file that must be one of some contents."""
    if not path.exists():
        return None if None in contents else "the file is gone"
    if path.read_bytes() not in contents:
        return "the file is none of those that were saved"
    model_file.load(path)
    return None


def killed(child_work, seconds):
    """Run something in a forked process, kill it after some time; return whether it was alive."""
    pid = os.fork()
    if pid == 0:
        try:
            child_work()
        finally:
            os._exit(0)
    time.sleep(seconds)
    alive = os.waitpid(pid, os.WNOHANG)[0] == 0
    if alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return alive


class Moments:
    """Moments spread over a run, one in each of some equal parts; runs may take less than said."""

    def __init__(self, seconds, n, rng):
        self.seconds = seconds
        self._shares = (np.arange(n) + rng.random(n)) / n

    def kill_at(self, number, run):
        """Let ``run(seconds)`` kill at one of them; again, earlier, where it was over by then."""
        while not run(self._shares[number] * self.seconds):
            self.seconds *= SHORTER


def clear_temporaries(folder):
    """Remove what killed processes left; all of it must be hidden."""
    left = [path for path in folder.iterdir() if path.name.endswith(".tmp")]
    for path in left:
        assert path.name.startswith("."), path.name
        path.unlink()
    return len(left)


def fuzz_kills(n_kills, seed, folder, with_train):
    rng = np.random.default_rng([seed, 2])
    n_train = n_kills // 10 if with_train else 0
    n_fit = n_kills * 3 // 10
    wrong = kills_of_save(n_kills - n_fit - n_train, rng, folder)
    wrong += kills_of_fit(n_fit, rng, folder)
    if n_train:
        wrong += kills_of_train(n_train, rng, folder)
    return wrong


def pair_of_models(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    for gamma in (0.02, 0.05):
        clf = BayesPointClassifier(gamma=gamma, softness=0.1, inference="ep", random_state=0)
        yield clf.fit(X, y)


def kills_of_save(n_kills, rng, folder):
    """Two models saved over each other without end."""
    one, other = pair_of_models(200)
    path, contents, wrong = folder / "saved.bpm", [], []
    for clf in (one, other):
        model_file.save(path, clf)
        contents.append(path.read_bytes())
    start = time.perf_counter()
    model_file.save(path, one)
    seconds = time.perf_counter() - start

    def save_on():
        while True:
            model_file.save(path, other)
            model_file.save(path, one)

    left = 0
    for number in range(n_kills):
        if number % 4 == 0:
            path.unlink()  # a first save as well
        allowed = [*contents, None] if number % 4 == 0 else contents
        killed(save_on, rng.uniform(0, 6 * seconds))
        problem = complete(path, allowed)
        if problem:
            wrong.append(f"kill {number} of save: {problem}")
        if not path.exists():
            model_file.save(path, one)
        left += clear_temporaries(folder)
    print(
        f"{n_kills} kills while saving {len(contents[0]) / 1e6:.1f} MB: {left} hidden temporaries "
        f"left, {len(wrong)} wrong"
    )
    return wrong


def kills_of_fit(n_kills, rng, folder):
    """Train and save, killed at any time from the start to the end."""
    X, y = load_iris(return_X_y=True)
    path, wrong = folder / "fitted.bpm", []

    def fit_and_save(seed=1):
        clf = BayesPointClassifier(inference="billiard", **(FIXED | {"random_state": seed}))
        clf.fit(X, y).draws_.info["flight_seconds"] = 0.0  # else no two files are the same
        model_file.save(path, clf)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_and_save(0)
        old = path.read_bytes()
        start = time.perf_counter()
        fit_and_save(1)
        seconds = time.perf_counter() - start
        new = path.read_bytes()
        path.write_bytes(old)
        moments = Moments(seconds, n_kills, rng)

        def run(delay):
            alive = killed(fit_and_save, delay)
            problem = complete(path, (old, new))
            if problem:
                wrong.append(f"kill {number} of train and save: {problem}")
            path.write_bytes(old)
            clear_temporaries(folder)
            return alive

        for number in range(n_kills):
            moments.kill_at(number, run)
    print(
        f"{n_kills} kills of train and save, {n_kills} before the end, spread over "
        f"{moments.seconds:.2f} s: {len(wrong)} wrong"
    )
    return wrong


def kills_of_train(n_kills, rng, folder):
    """`bayespoint train`, killed at any time from the start to the end."""
    X, y = load_iris(return_X_y=True)
    table = np.column_stack([X, y])
    source, path = folder / "iris.csv", folder / "trained.bpm"
    np.savetxt(source, table, delimiter=",", header="a,b,c,d,kind", comments="")
    script = "import sys; from bayespoint.cli import main; sys.argv[0] = 'bayespoint'; main()"
    command = [
        sys.executable, "-c", script, "train", str(source), "--target", "kind", "--model",
        str(path),
    ]  # fmt: skip
    start = time.perf_counter()
    if subprocess.run(command, capture_output=True, check=False).returncode:
        print("bayespoint train: not there yet")
        return []
    moments, wrong = Moments(time.perf_counter() - start, n_kills, rng), []
    expected = model_file.load(path).classifier.predict_proba(X)
    original = path.read_bytes()

    def run(delay):
        if number % 2:
            path.unlink(missing_ok=True)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        alive = process.poll() is None
        process.kill()
        process.wait()
        if path.exists() and not _says(path, X, expected):
            wrong.append(f"kill {number} of bayespoint train: the file is not complete")
        elif not path.exists() and number % 2 == 0:
            wrong.append(f"kill {number} of bayespoint train: the old file is gone")
        path.write_bytes(original)
        clear_temporaries(folder)
        return alive

    for number in range(n_kills):
        moments.kill_at(number, run)
    print(
        f"{n_kills} kills of bayespoint train, {n_kills} before the end, spread over "
        f"{moments.seconds:.1f} s: {len(wrong)} wrong"
    )
    return wrong


def _says(path, X, expected):
    """Whether a file is a model that predicts this."""
    try:
        return np.array_equal(model_file.load(path).classifier.predict_proba(X), expected)
    except ModelFileError:
        return False


# ---------------------------------------------------------------------- threads and forks


def fuzz_threads():
    """Predict from many threads at once, and in forked processes."""
    wrong, n_calls = [], 0
    for number, (clf, X) in enumerate(models()):
        for n_jobs in (None, 2):
            getattr(clf, "estimator_", clf).n_jobs = n_jobs
            expected = answers(clf, X)
            with ThreadPoolExecutor(N_THREADS) as pool:
                found = list(pool.map(lambda _, c=clf, x=X: answers(c, x), range(4 * N_THREADS)))
            n_calls += len(found)
            if any(one != expected for one in found):
                wrong.append(f"model {number}, n_jobs={n_jobs}: threads differ from one thread")
            if after_fork(lambda c=clf, x=X: answers(c, x)) != hashlib.sha256(expected).digest():
                wrong.append(f"model {number}, n_jobs={n_jobs}: a forked process differs")
    print(
        f"{n_calls} predictions from {N_THREADS} threads and 10 after fork: {len(wrong)} differ "
        f"from one thread"
    )
    return wrong


def after_fork(work):
    """SHA-256 of what a forked process computes."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(send, hashlib.sha256(work()).digest())
        finally:
            os._exit(0)
    os.close(send)
    with open(receive, "rb") as stream:
        digest = stream.read()
    os.waitpid(pid, 0)
    return digest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--no-train", action="store_true", help="leave `bayespoint train` out")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wrong = fuzz_mutants(arguments.mutants, arguments.seed, folder)
        wrong += fuzz_kills(arguments.kills, arguments.seed, folder, not arguments.no_train)
        wrong += fuzz_threads()
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
