"""``bayespoint info``: what a model file holds."""

from bayespoint.cli.output import Output, exit_codes
from bayespoint.io.model_file import describe
from bayespoint.io.tables import printable

# Classes, names and notes that are listed.
SHOWN_ITEMS = 12

# Characters of a text of the file that are shown in one line.
SHOWN_TEXT = 200


def run_info(path, json=False):
    """Print a description of a model file, for people or as JSON.

    Parameters
    ----------
    path : str or path-like
    json : bool, default=False
        Print the whole description, members included, as one JSON document.
    """
    with exit_codes():
        output = Output(json=json)
        found = describe(path)
        for line in _lines(found, path):
            output.say(line)
        output.document(found)


def _lines(found, path):
    """Text of a description, line by line."""
    inside, rows = found["training_rows_inside"], found["training_rows"]
    yield (
        f"{_shown(str(path))}: {_shown(found['class'])}, {found['bytes'] / 1000:,.0f} kB, schema "
        f"{found['schema']}, written by bayespoint {_shown(found['bayespoint'])}"
    )
    if inside:
        yield f"Training rows are inside: {inside} of {_shown(rows)}. Share it as you would them."
    else:
        yield f"Training rows are not inside; it was trained on {_shown(rows)}."
    yield f"Classes: {_listed(found['classes'])}"
    names = found["feature_names"]
    yield f"Features: {_shown(found['n_features'])}" + (f": {_listed(names)}" if names else "")
    yield f"Takes raw columns of a table: {'yes' if found['encoder'] else 'no'}"
    yield (
        f"Method: {_shown(found['inference'])} ({_shown(found['inference_reason'])}), decision "
        f"{_shown(found['decision'])}, {_shown(found['n_draws'])} draws, "
        f"{found['support_points']} support points"
    )
    values = ("gamma", "bias", "softness", "label_noise", "log_evidence")
    yield ", ".join(f"{name} {_shown(found[name])}" for name in values if found[name] is not None)
    yield "Settings: " + _pairs(found["settings"])
    rejection = dict(found.get("rejection", {}))
    if rejection.get("max_risk") is None:  # no risk was promised
        rejection = {name: v for name, v in rejection.items() if not name.startswith("risk_bound")}
    yield "Rejects: " + (_pairs(rejection) if rejection else "nothing")
    for name, value in list(found["about"].items())[:SHOWN_ITEMS]:
        yield f"{_shown(name)}: {_shown(value)}"


def _shown(value):
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(value if isinstance(value, str) else repr(value), SHOWN_TEXT)


def _listed(values):
    if not isinstance(values, list):
        return _shown(values)
    more = f" and {len(values) - SHOWN_ITEMS} more" if len(values) > SHOWN_ITEMS else ""
    return ", ".join(map(_shown, values[:SHOWN_ITEMS])) + more


def _pairs(values):
    return ", ".join(f"{_shown(name)}={_shown(value)}" for name, value in values.items())
