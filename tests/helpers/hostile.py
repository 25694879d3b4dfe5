"""Model files taken apart, changed, and put together again with right hashes."""

import hashlib
import io
import json
import re
import tracemalloc
import zipfile

import numpy as np

from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError, layout


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            with archive.open(name, "w") as member:
                member.write(content)
    return path


def refused(path, match, case=""):
    """Loading says what is wrong, in one printable line."""
    try:
        model_file.load(path)
    except ModelFileError as error:
        message = str(error)
    else:
        raise AssertionError(f"{case}: it was loaded")
    assert re.search(match, message), f"{case}: {message}"
    assert message.isprintable(), f"{case}: {message!r}"  # and of one line


def refused_without_memory(path, match, most, case=""):
    tracemalloc.start()
    try:
        refused(path, match, case)
        assert tracemalloc.get_traced_memory()[1] < most, case
    finally:
        tracemalloc.stop()


def edited(good, path, change):
    """File with its JSON changed; hashes are made right for changed arrays."""
    members = members_of(good)
    document = json.loads(members["model.json"])
    change(document, members)
    for number, record in enumerate(document["arrays"]):
        record["sha256"] = hashlib.sha256(members[f"arrays/{number}.npy"]).hexdigest()
    members["model.json"] = json.dumps(document).encode()
    return write_members(path, members)


def state(document):
    return document["classifier"]["fitted"]


def place(document, *names):
    """Find an object in the fitted classifier, dataclass by dataclass."""
    found = state(document)
    for name in names:
        found = found[name]
        if isinstance(found, dict) and len(found) == 1 and next(iter(found))[0].isupper():
            (found,) = found.values()
    return found


def changed(path, value):
    """Return what sets a value of the JSON: the names of dataclasses may be left out."""

    def change(document, _):
        *names, last = path.split(".")
        place(document, *names)[last] = value

    return change


def parameter(name, value):
    """Return what sets a parameter of the classifier."""
    return lambda document, _: document["classifier"]["parameters"].update({name: value})


def array_of(members, number):
    return np.load(io.BytesIO(members[f"arrays/{number}.npy"]), allow_pickle=False)


def replaced_array(members, document, number, array):
    buffer = layout.npy_header(array.dtype.str, "C", array.shape) + array.tobytes()
    members[f"arrays/{number}.npy"] = buffer
    record = {"dtype": array.dtype.str, "order": "C", "shape": list(array.shape)}
    document["arrays"][number] |= record


def changed_array(good, path, name, change):
    """File with an array changed, which is named as in messages."""

    def change_array(document, members):
        number = place(document, *name.split("."))["array"]
        replaced_array(members, document, number, change(array_of(members, number)))

    return edited(good, path, change_array)
