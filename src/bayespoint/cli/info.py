"""``bayespoint info``: what a model file holds."""

from collections.abc import Iterator, Mapping
from typing import Any

from bayespoint.cli.output import Output, exit_codes, in_options
from bayespoint.io.model_file import describe
from bayespoint.io.tables import PathName, printable

# Classes, names and notes that are listed.
SHOWN_ITEMS = 12

# Characters of a text of the file that are shown in one line, and of the reason for a method.
SHOWN_TEXT, SHOWN_REASON = 200, 400


def run_info(path: PathName, json: bool = False) -> None:
    """Print a description of a model file, for people or as JSON.

    Parameters
    ----------
    path : str or path-like
    json : bool, default=False
        Print the whole description, members included, as one JSON document.
    """
    with exit_codes():
        output = Output(json=json)
        facts = describe(path)
        for line in _lines(facts, path):
            output.say(line)
        output.document(facts)


def _lines(facts: Mapping[str, Any], path: PathName) -> Iterator[str]:
    """Text of a description, line by line."""
    inside, rows = facts["training_rows_inside"], facts["training_rows"]
    yield (
        f"{_shown(str(path))}: {_shown(facts['class'])}, {facts['bytes'] / 1000:,.0f} kB, schema "
        f"{facts['schema']}, written by bayespoint {_shown(facts['bayespoint'])}"
    )
    if inside:
        yield f"Training rows are inside: {inside} of {_shown(rows)}. Share it as you would them."
    else:
        yield f"Training rows are not inside; it was trained on {_shown(rows)}."
    yield f"Classes: {_listed(facts['classes'])}"
    names = facts["feature_names"]
    yield f"Features: {_shown(facts['n_features'])}" + (f": {_listed(names)}" if names else "")
    yield f"Takes raw columns of a table: {'yes' if facts['encoder'] else 'no'}"
    drawn = facts["inference"] != "ep"  # whose draws are made when they are asked for
    reason = in_options(_shown(facts["inference_reason"], SHOWN_REASON))
    yield (
        f"Method: {_shown(facts['inference'])} ({reason}), decision {_shown(facts['decision'])}, "
        + (f"{_shown(facts['n_draws'])} draws, " if facts["n_draws"] and drawn else "")
        + f"{facts['support_points']} support points"
    )
    values = ("kernel", "gamma", "bias", "softness", "label_noise", "log_evidence")
    told = {name: facts[name] for name in values if facts[name] is not None}
    if str(told.get("gamma", "")).startswith("array"):
        told["gamma"] = "one for each feature"
    yield ", ".join(f"{name} {_listed(value)}" for name, value in told.items())
    yield "Settings: " + _pairs(facts["settings"])
    rejection = dict(facts.get("rejection", {}))
    if rejection.get("max_risk") is None:  # no risk was promised
        rejection = {name: v for name, v in rejection.items() if not name.startswith("risk_bound")}
    yield "Rejects: " + (_pairs(rejection) if rejection else "nothing")
    if "sets" in facts:
        yield "Sets: " + _pairs(facts["sets"])
    for name, value in list(facts["about"].items())[:SHOWN_ITEMS]:
        if name == "notes" and isinstance(value, list):  # sentences
            yield from (f"note: {_shown(note)}" for note in value[:SHOWN_ITEMS])
            continue
        yield f"{_shown(name)}: {_listed(value)}"


def _shown(value: object, most: int = SHOWN_TEXT) -> str:
    """Text of a single value; "none" of no value, and lists in brackets."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | dict):
        return f"({_listed(value)})"
    return printable(str(value), most)


def _listed(values: object) -> str:
    """Text of a list, or of names with values, without those that have none."""
    if isinstance(values, dict):
        there = [f"{_shown(name)} {_shown(v)}" for name, v in values.items() if v is not None]
    elif isinstance(values, list):
        there = [_shown(value) for value in values]
    else:
        return _shown(values)
    more = f" and {len(there) - SHOWN_ITEMS} more" if len(there) > SHOWN_ITEMS else ""
    return ", ".join(there[:SHOWN_ITEMS]) + more or "none"


def _pairs(values: Mapping[str, Any]) -> str:
    shown = (f"{_shown(name)}={_shown(v)}" for name, v in values.items() if v is not None)
    return ", ".join(shown)
