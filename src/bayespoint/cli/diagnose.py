"""``bayespoint diagnose``: whether the average that a model holds can be trusted."""

import warnings
from pathlib import Path

import numpy as np

from bayespoint.cli.deciding import base_of, class_names
from bayespoint.cli.evaluate import facts_of
from bayespoint.cli.inputs import load_model, shown_name
from bayespoint.cli.output import Output, UsageError, check_writable, counted, exit_codes
from bayespoint.cli.verdicts import BAD, FINE, WATCH, verdicts_on
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import printable

# Machines drawn: those of the worst R-hat, or the first; each needs some 4 inches.
SHOWN_MACHINES = 8
# Machines listed on the terminal.
LISTED_MACHINES = 20
FORMATS = (".png", ".pdf", ".svg")
# Methods whose draws are independent of each other: R-hat and ESS say nothing about them.
INDEPENDENT = ("ep", "perceptron")


def run_diagnose(model, plots=None, *, quiet=False, json=False):
    """Read a model, say what its inference tells about itself, and draw its draws."""
    with exit_codes():
        output = Output(quiet=quiet, json=json)
        if plots is not None:
            _check_plots(plots, model)
        found = load_model(model)
        document = {"model": shown_name(model), **diagnosed(found.classifier)}
        _say(output, document)
        if plots is not None:
            draw_traces(found.classifier, plots, output)
            document["plots"] = str(plots)
        output.document(document | {"notes": output.notes})


def _check_plots(plots, model):
    if Path(plots).suffix.lower() not in FORMATS:
        raise UsageError(
            f"--plots {printable(str(plots), 200)} must end in one of {', '.join(FORMATS)}."
        )
    check_writable(plots, "--plots", [(model, "the model")])


def diagnosed(classifier):
    """What the inference of a classifier tells about itself, and what to make of it.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
        Fitted.

    Returns
    -------
    dict
        Of plain types: ``machines``, one entry each, ``verdicts``, each with a level
        ("fine", "watch" or "bad") and words, and facts about all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.cli.diagnose import diagnosed
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesPointClassifier(inference="perceptron", n_draws=30, random_state=0).fit(X, y)
    >>> [verdict["level"] for verdict in diagnosed(clf)["verdicts"]]
    ['fine', 'fine']
    """
    base = base_of(classifier)
    facts = facts_of(classifier)
    machines = _machines(base, facts)
    found = {
        **facts, "n_support": len(base.support_), "n_training_rows": int(base._n_samples_),
        "machines": machines,
        "run": {
            name: _plain(value)
            for name, value in base.diagnostics_.items()
            if name in ("drift", "restarts", "flight_seconds", "n_draws")
        },
    }  # fmt: skip
    verdicts = [{"level": level, "words": words} for level, words in verdicts_on(found)]
    return found | {"verdicts": verdicts}


def _machines(base, facts):
    """What there is to know about each machine: its class, and one entry of each number."""
    classes = class_names(base)
    n_machines = len(base.dual_coef_)
    machines = [
        {"class": classes[k] if n_machines > 1 else classes[1],
         "angle_error": _plain(error)}
        for k, error in enumerate(base.bayes_point_error_)
    ]  # fmt: skip
    for name, values in base.diagnostics_.items():
        each_has = isinstance(values, np.ndarray) and values.ndim and len(values) == n_machines
        if each_has and values.size and values.dtype.kind in "biuf":
            each = values.reshape(n_machines, -1)
            each = each.sum(axis=1) if name in ("bounces", "passes") else each[:, 0]
            for machine, value in zip(machines, each, strict=True):
                machine[name] = _plain(value)
    draws = base._draws_
    if draws is not None and len(draws.get("violated", ())):
        for machine, worst in zip(machines, draws["violated"].max(axis=0), strict=True):
            machine["violated"] = _plain(worst)  # training points, of the worst draw
    if facts["inference"] == "ep":
        for machine in machines:
            if machine.get("log_evidence") is not None:
                rate = min(machine["log_evidence"] / base._n_samples_, 0.0)
                machine["mean_probability"] = float(np.exp(rate))
    return machines


def _plain(value):
    """Number of a plain type; None where it is none, or not finite."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, int | float) and np.isfinite(value) else None


# ---------------------------------------------------------------------- telling

COLUMNS = {
    "rhat": ("R-hat", "{:.3f}"), "ess": ("ESS", "{:.0f}"), "bounces": ("bounces", "{:,}"),
    "sweeps": ("sweeps", "{:,}"), "converged": ("converged", "{}"), "bounded": ("bounded", "{}"),
    "log_evidence": ("log evidence", "{:.1f}"), "violated": ("violated", "{:,}"),
    "angle_error": ("angle error", "{:.3f}"),
}  # fmt: skip
STYLES = {FINE: "green", WATCH: "yellow", BAD: "red"}


def _say(output, found):
    evidence = found.get("log_evidence")
    output.say(
        f"{found['model']}: {found['inference']}"
        + (f" ({printable(found['reason'], 200)})" if "reason" in found else "")
        + f", {counted(found['n_draws'], 'draw')} a machine, "
        f"{counted(found['n_support'], 'support point')} of "
        f"{counted(found['n_training_rows'], 'training row')}"
        + (f", log evidence {evidence:.1f}." if evidence is not None else ".")
    )
    machines = found["machines"][:LISTED_MACHINES]
    names = [printable(machine["class"], 24) for machine in machines]
    width = max(7, *map(len, names))
    shown = [column for column in COLUMNS if any(m.get(column) is not None for m in machines)]
    output.say(f"{'machine':<{width}}" + "".join(f"{COLUMNS[c][0]:>14}" for c in shown))
    for name, machine in zip(names, machines, strict=True):
        cells = (_cell(machine.get(c), COLUMNS[c][1]) for c in shown)
        output.say(f"{name:<{width}}" + "".join(f"{cell:>14}" for cell in cells))
    if len(found["machines"]) > LISTED_MACHINES:
        output.say(f"and {len(found['machines']) - LISTED_MACHINES} more")
    for verdict in found["verdicts"]:
        output.say(f"{verdict['level']}: {verdict['words']}", style=STYLES[verdict["level"]])


def _cell(value, form):
    if value is None:
        return "–"
    return ("yes" if value else "no") if isinstance(value, bool) else form.format(value)


def draw_traces(classifier, path, output):
    """Draw the draws of each machine, chain by chain, into an image file.

    Where they are independent, there are no chains to judge: what is shown is the training point
    that a machine is least sure of.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
    path : path
        Ends in .png, .pdf or .svg.
    output : Output
    """
    from matplotlib.figure import Figure

    from bayespoint.displays import PosteriorDisplay
    from bayespoint.displays.trace import LEAST_EXPECTED, inches

    base = base_of(classifier)
    if base._draws_ is None or base.kernel == "precomputed":
        raise UsageError("--plots needs the draws and a kernel; this model does not hold them.")
    machines = _worst(base)
    posts = [base.posterior(machine) for machine in machines]
    height = inches(max(2, posts[0].n_chains)) + 0.3
    figure = Figure(figsize=(12, height * len(posts)), layout="constrained")
    axes = figure.subplots(len(posts), 2, squeeze=False)
    classes = class_names(base)
    independent = facts_of(base)["inference"] in INDEPENDENT
    for row, machine, post in zip(axes, machines, posts, strict=True):
        summary = _least_sure(post) if independent else None
        PosteriorDisplay.from_posterior(post, kind="trace", summary=summary, ax=row)
        name = printable(classes[machine if len(base.dual_coef_) > 1 else 1], 24)
        title = (
            f"{counted(post.n_draws, 'independent draw')}, training point that it is least sure of"
            if independent else row[0].get_title()
        )  # fmt: skip
        row[0].set_title(f"{name}: {title}", fontsize=14, parse_math=False)
        few = post.n_draws // post.n_chains < 2 * LEAST_EXPECTED  # a histogram of one bar
        if independent or few:
            _without_ranks(row)
    if len(base.dual_coef_) > len(machines):
        output.note(f"{len(machines)} of {len(base.dual_coef_)} machines are drawn.")
    with warnings.catch_warnings(), replacing(Path(path).resolve()) as stream:
        warnings.simplefilter("ignore")  # letters of a class that the font does not have
        figure.savefig(stream, format=Path(path).suffix.lower()[1:], dpi=110)
    output.say(f"{'Draws' if independent else 'Traces'}: {printable(str(path), 200)}")


def _least_sure(post):
    """Number of the training point whose outputs are nearest to zero for their spread."""
    spread = post.outputs.std(axis=0)
    return int(np.argmin(np.abs(post.outputs.mean(axis=0)) / np.where(spread > 0, spread, np.inf)))


def _without_ranks(row):
    """Give the room of the histograms to the course of the draws, and their names of the chains."""
    left, right = row
    names = [(tick.get_text(), tick.get_color()) for tick in right.get_yticklabels()]
    for place, (name, colour) in zip(right.get_yticks(), names, strict=True):
        left.annotate(
            f" {name}", (1, place), xycoords=("axes fraction", "data"), color=colour,
            fontsize=13, va="center",
        )  # fmt: skip
    spec = left.get_subplotspec().get_gridspec()[left.get_subplotspec().rowspan.start, :]
    right.remove()
    left.set_subplotspec(spec)


def _worst(base):
    """Numbers of the machines to draw, in order."""
    n = len(base.dual_coef_)
    rhat = base.diagnostics_.get("rhat")
    known = isinstance(rhat, np.ndarray) and rhat.shape == (n,) and rhat.dtype.kind == "f"
    rhat = np.nan_to_num(rhat) if known else np.zeros(n)
    return sorted(np.argsort(-rhat, kind="stable")[:SHOWN_MACHINES].tolist())
