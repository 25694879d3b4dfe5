"""Items of ``bayespoint reproduce``: their documented numbers, other ones, and verdicts."""

import copy
import json

from bayespoint.papers import reproduction
from helpers.paths import ROOT


def stored(name):
    """Numbers of the documented run."""
    path = ROOT / "docs" / "reproduction" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["data"]


def changed(data, **places):
    """Copy data with other values at places like ``a__b``."""
    data = copy.deepcopy(data)
    for place, value in places.items():
        *way, last = place.split("__")
        part = data
        for step in way:
            part = part[step]
        part[last] = value
    return data


def verdicts(name, data, **places):
    """Verdicts of an item on some numbers, with changes."""
    return [row.verdict for row in reproduction.load(name).compare(changed(data, **places))]
