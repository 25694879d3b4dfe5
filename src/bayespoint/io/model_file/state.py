"""Checks that what a fitted classifier holds fits together.

Before a model is saved, and after it is loaded. Prediction indexes arrays by each other and hands
some to compiled loops, so that shapes must agree and indices lie in range.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint.estimators import predictors
from bayespoint.estimators.base import Trained
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.fitting import SAME_DATA
from bayespoint.estimators.onion import OnionClassifier
from bayespoint.estimators.parameters import DRAW_SETTINGS
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.estimators.settings import Settings
from bayespoint.estimators.shells import Shells
from bayespoint.estimators.streams import Stream
from bayespoint.inference.draws import Draws
from bayespoint.inference.ep.cells.method import HeldCells
from bayespoint.inference.ep.cells.prediction import CellModel
from bayespoint.inference.methods import METHODS
from bayespoint.io.model_file.checks import check_fields, refuse_if
from bayespoint.io.model_file.errors import shown
from bayespoint.io.model_file.fields import NEVER_EMPTY
from bayespoint.io.model_file.layout import MAX_BYTES

PREDICTORS = {
    "bayes_point": predictors.BayesPointPredictor, "span_vote": predictors.SpanVotePredictor,
    "vote": predictors.VotePredictor, "calibrated": predictors.GaussianPredictor,
}  # fmt: skip

# What RejectingClassifier chooses from with confidence="auto".
AUTO_RULES = ("probability", "gap")


def check_fitted(state: Mapping[str, Any], kind: type, kernel: str) -> None:
    """Refuse the fitted attributes of a classifier unless all of them fit together.

    What follows from others (see `fields`) may be None. ``kernel``: the parameter.
    """
    sizes = {"2": 2, "3": 3}
    check_fields(state, kind, sizes)
    settings, draws, trained = state["settings_"], state["draws_"], state["trained_"]
    predictor, onion = state["predictor_"], kind is OnionClassifier
    for letter, what in NEVER_EMPTY.items():
        refuse_if(sizes.get(letter) == 0, f"{what}: an array of them is empty.")
    _check_classes(state["classes_"].tolist(), settings, sizes)
    stream = state.get("stream_")
    begins = stream is not None and isinstance(predictor, CellsPredictor)  # perhaps without rows
    few = sizes["p"] < 2 or not sizes["s"]
    refuse_if(few and not begins, "there are no points to decide by.")
    agree = np.array_equal(state["support_"], trained.row[predictor.used])
    refuse_if(not agree, "support_ is not where trained_.row and predictor_.used say.")
    agree = (settings.inference == "onion") == onion
    refuse_if(not agree, f"settings_.inference is {settings.inference!r} for {kind.__name__}.")
    _check_trained(trained, onion, stream)
    _check_support(predictor.support, state, kernel, sizes)
    _check_decision(predictor, settings, draws, sizes)
    made = getattr(predictor, "origin", None) is not None
    _check_draws(draws, settings.inference, sizes, made)
    if stream is not None:
        _check_stream(stream, predictor, sizes)
    if onion:
        _check_shells(state["table_"], state["shells_"], sizes)


def check_wrapper(
    state: Mapping[str, Any], inner: Mapping[str, Any], kind: type, parameters: Mapping[str, Any]
) -> None:
    """Refuse the fitted attributes of a wrapper around a classifier's."""
    check_fields(state, kind, {})
    if kind is RejectingClassifier:
        _check_rejecting(state, parameters)
    nan = np.any(np.isnan(state.get("thresholds_", state.get("threshold_"))))
    refuse_if(nan, "a threshold is NaN, and would reject or exclude everything.")
    for name in ("classes_", "n_features_in_"):
        agree = np.array_equal(state[name], inner[name])
        refuse_if(not agree, f"{name} is not that of the classifier inside.")


def _check_rejecting(state: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Check that rule, thresholds and costs suit the parameters of a `RejectingClassifier`."""
    rule, confidence = state["confidence_"], parameters["confidence"]
    costs = parameters.get("costs") is not None
    rules = ("cost",) if costs else AUTO_RULES if confidence == "auto" else (confidence,)
    refuse_if(rule not in rules, f"confidence_ is {rule!r} for confidence={confidence!r}.")
    found, n = state.get("costs_"), len(state["classes_"])
    refuse_if(costs != (found is not None), "costs_ is there without costs, or costs without it.")
    if found is not None:
        refuse_if(found.shape[1] not in (n, n + 1), f"costs_ has shape {found.shape}.")
        wanted = 0.0 if found.shape[1] > n else -np.inf
        given = state["threshold_"]
        refuse_if(np.ndim(given) or given != wanted, f"threshold_ is {given}, not {wanted}.")
    limits = any(parameters.get(name) is not None for name in ("min_precision", "min_recall"))
    per_class = np.ndim(state["threshold_"]) > 0
    refuse_if(limits != per_class, "threshold_ does not suit min_precision and min_recall.")


def _check_classes(classes: list[Any], settings: Settings, sizes: dict[str, int]) -> None:
    n_classes, rates = sizes["c"], settings.class_noise
    refuse_if(n_classes < 2, f"classes_ has {n_classes} label(s); a classifier has two or more.")
    refuse_if(len(set(classes)) < n_classes, "classes_ has a label twice.")
    n_machines = n_classes if n_classes > 2 else 1
    refuse_if(sizes["m"] != n_machines, f"{sizes['m']} machines for {n_classes} classes.")
    outside = np.any((rates < 0) | (rates >= 0.5))
    refuse_if(outside, "settings_.class_noise has rates outside [0, 0.5).")


def _check_trained(trained: Trained, onion: bool, stream: Stream | None) -> None:
    found = trained.drawn_with
    names = {*DRAW_SETTINGS, "inference", "label_noise", SAME_DATA}
    # A stream that began with one class has drawn nothing.
    agree = found.keys() == (set() if onion else names) or (
        stream is not None and found.keys() == names - {"inference", "label_noise"}
    )
    arrays = any(isinstance(v, np.ndarray) or sp.issparse(v) for v in found.values())
    refuse_if(not agree or arrays, "trained_.drawn_with is not what draws depend on.")
    alone = (trained.label_proba is None) != (trained.label is None)
    refuse_if(alone, "trained_ has one of label_proba and label only.")


def _check_support(
    support: predictors.SupportPoints, state: Mapping[str, Any], kernel: str, sizes: dict[str, int]
) -> None:
    """Check that support points suit kernel and layout."""
    own, points, X = support.kernel, support.points, state["support_vectors_"]
    given, where = own.name == "precomputed", "predictor_.support"
    refuse_if(given != (kernel == "precomputed"), f"kernel={kernel!r}, but fitted {own.name!r}.")
    columns, diagonal = support.columns, support.diagonal
    agree = (columns is not None) == given and (diagonal is not None) == given
    refuse_if(not agree, f"{where}.columns and diagonal must be there for Gram matrices only.")
    moved = columns is not None and not np.array_equal(columns, state["support_"])
    refuse_if(moved, f"{where}.columns are not support_.")
    refuse_if(given and sizes["f"] != sizes["n"], "a Gram matrix was given, but not its size.")
    shape = sizes["s"], 0 if given else sizes["f"]
    refuse_if(X.shape != shape, f"support_vectors_ has shape {X.shape}; it must be {shape}.")
    sparse, layout = sp.issparse(X), own.layout
    repeated = sparse and not X.has_canonical_format
    refuse_if(repeated, "support_vectors_ has the same entry twice, or out of order.")
    refuse_if(own.degree != int(own.degree), f"{where}.kernel.degree is {own.degree}.")
    agree = own.uses_products == (layout is not None)
    refuse_if(not agree, f"{where}.kernel.layout is {shown(layout)} for {own.name!r}.")
    dense = layout is not None and layout.startswith("dense")
    agree = (own.name == "rbf" and dense) == (own.center is not None)
    refuse_if(not agree, f"{where}.kernel.center must be there for dense points of 'rbf' only.")
    refuse_if(dense and sparse, "support_vectors_ is sparse, and its layout is dense.")
    agree = (points.squared_norm is not None) == own.uses_products
    refuse_if(not agree, f"{where}.points.squared_norm does not suit the kernel.")
    agree = (points.scale is not None) == own.normalize
    refuse_if(not agree, f"{where}.points.scale does not suit the kernel.")
    chosen = state["settings_"].kernel_name
    refuse_if(
        chosen not in (None, own.name), f"settings_.kernel_name={chosen!r}, not {own.name!r}."
    )


def _check_decision(
    predictor: predictors.Predictor, settings: Settings, draws: Draws, sizes: dict[str, int]
) -> None:
    decision, method = settings.decision, settings.inference
    kind, calibrated = type(predictor), decision == "calibrated"
    closed_form = method in METHODS and METHODS[method].closed_form
    decides = "calibrated" if closed_form and decision == "vote" else decision
    wanted = PREDICTORS[decides] if settings.cells is None else CellsPredictor
    agree = kind is wanted and (closed_form or not (calibrated or kind is CellsPredictor))
    refuse_if(not agree, f"predictor_ is a {kind.__name__} for {decision!r} by {method!r}.")
    made = isinstance(predictor, predictors.GaussianPredictor) and _check_made(predictor, sizes)
    lacks = decision != "bayes_point" and not (draws.coef or made or kind is CellsPredictor)
    refuse_if(lacks, f"decision {decision!r} needs draws, and there are none.")
    all_points = np.array_equal(predictor.used, np.arange(sizes["p"]))
    votes = isinstance(predictor, predictors.VotePredictor | CellsPredictor)
    refuse_if(votes and not all_points, f"decision {decision!r} needs all points in order.")
    if isinstance(predictor, CellsPredictor):
        _check_cells(predictor.model, settings, sizes)
    if isinstance(predictor, predictors.GaussianPredictor | CellsPredictor):
        agree = (predictor.link is not None) == calibrated
        refuse_if(not agree, f"predictor_.link does not suit {decision!r}.")
    link = getattr(predictor, "link", None)
    turned = link is not None and sizes["m"] == 1 and link.weights[0, 0] <= 0
    refuse_if(turned, "predictor_.link.weights is not positive, and would turn classes around.")


def _check_made(predictor: predictors.GaussianPredictor, sizes: dict[str, int]) -> bool:
    """Whether matrices and draws are made again; refuse what has both, or neither.

    What is made may be as large as what a file could hold.
    """
    origin, where = predictor.origin, "predictor_"
    for name in ("whitener", "reducer", "sign"):
        twice = (getattr(predictor, name) is None) != (origin is not None)
        refuse_if(twice, f"{where}.{name} must be there where {where}.origin is not.")
    if origin is None:
        return False
    given = predictor.support.columns is not None
    refuse_if(given, f"{where}.origin is there for a Gram matrix, which a model does not hold.")
    refuse_if(np.any(origin.copies <= 0), f"{where}.origin.copies has points that do not count.")
    n_bytes = 8 * sizes["m"] * sizes["p"] * max(sizes["p"], origin.n_draws)
    beyond = f"{where}.origin asks for {n_bytes:,} bytes of matrices or draws, more than "
    refuse_if(n_bytes > MAX_BYTES, beyond + f"{MAX_BYTES:,}.")
    return True


def _check_cells(model: CellModel, settings: Settings, sizes: dict[str, int]) -> None:
    """Check that rows find their way to cells, and cells to their rows."""
    n_nodes, n_cells, where = sizes["k"], sizes["z"] - 1, "predictor_.model"
    n_trees = sizes["t"]
    refuse_if(n_cells < n_trees or not n_trees, f"{n_cells} cells of {n_trees} trees.")
    refuse_if(sizes["o"] != n_trees * sizes["p"], f"{where}.order is not of all rows.")
    ends = model.begin[0] == 0 and model.begin[-1] == sizes["o"]
    follow = ends and np.all(np.diff(model.begin.astype(np.int64)) >= 0)
    refuse_if(not follow, f"{where}.begin: cells do not follow each other.")
    for name, value in (("children", model.children), ("roots", model.roots)):
        outside = np.any((value >= n_nodes) | (value < -n_cells))
        refuse_if(outside, f"{where}.{name} has nodes or cells that are not there.")
    back = (model.children >= 0) & (model.children <= np.arange(n_nodes)[:, None])
    refuse_if(np.any(back), f"{where}.children lead back.")
    refuse_if(np.any(model.tau < 0), f"{where}.tau is negative.")
    refuse_if((model.landmarks is None) != (model.projection is None), f"{where}: half landmarks.")
    without = model.landmarks is None and sizes["x"] > 0
    refuse_if(without, f"{where} has features, and no landmarks.")
    diagonal = np.diagonal(model.common_factor, axis1=2, axis2=3)
    refuse_if(np.any(diagonal <= 0), f"{where}.common_factor is not that of a precision.")
    cells = settings.cells
    refuse_if(cells is not None and cells.n_trees < n_trees, f"{n_trees} trees, not as settings.")
    _check_trees(model, n_cells, sizes["p"])


def _check_trees(model: CellModel, n_cells: int, n_rows: int) -> None:
    """Check that each tree has nodes, cells and all rows of its own: trees that grow rely on it."""
    where = "predictor_.model"
    below = np.sort(np.append(model.children.ravel(), model.roots))
    once = np.array_equal(below, np.arange(-n_cells, len(model.cuts)))
    refuse_if(not once, f"{where}.children: nodes and cells do not hang at one place each.")
    first = 0
    for number, tree in enumerate(model.trees()):
        own = np.all((tree.children >= -tree.n_cells) & (tree.children < len(tree.cuts)))
        refuse_if(not own, f"{where}.children lead to another tree.")
        begins = model.begin[first] == number * n_rows
        refuse_if(not begins, f"{where}.begin is not where the rows of a tree begin.")
        rows = model.order[number * n_rows : (number + 1) * n_rows]
        twice = np.any(np.bincount(rows, minlength=n_rows) != 1)
        refuse_if(twice, f"{where}.order has a row twice in a tree.")
        first += tree.n_cells


def _check_stream(stream: Stream, predictor: predictors.Predictor, sizes: dict[str, int]) -> None:
    """Check what `partial_fit` goes on with."""
    kind, cells = type(predictor), isinstance(predictor, CellsPredictor)
    suits = cells or isinstance(predictor, predictors.GaussianPredictor)
    refuse_if(not suits, f"stream_ is there for a {kind.__name__}, which does not go on learning.")
    refuse_if(not cells and sizes["t"] != 1, f"stream_.waiting is of {sizes['t']} trees, not 1.")
    refuse_if(np.any(stream.weight <= 0), "stream_.weight has rows that do not count.")
    refuse_if(np.any(stream.number >= stream.seen), "stream_.number is of rows that never came.")
    refuse_if(stream.anew > stream.seen, f"stream_.anew is {stream.anew}, of {stream.seen} rows.")
    lost = stream.lost_precision is not None, stream.lost_shift is not None
    refuse_if(lost[0] != lost[1], "stream_ has one of lost_precision and lost_shift only.")
    common = isinstance(predictor, CellsPredictor) and predictor.model.landmarks is not None
    refuse_if(lost[0] and not common, "stream_.lost_precision is there without landmarks.")
    n_rows, log_proba = stream.history.T
    told = np.all(n_rows >= 0) and not np.any(np.isinf(n_rows) | (log_proba > 0))
    refuse_if(not told, "stream_.history is not of numbers of rows and log-probabilities.")


def _check_draws(draws: Draws, method: str, sizes: dict[str, int], made: bool) -> None:
    n_machines, n_draws, n_chains = sizes["m"], draws.n_draws, draws.n_chains
    for name, value in draws.info.items():  # one entry of each machine
        short = isinstance(value, np.ndarray) and (not value.ndim or len(value) < n_machines)
        refuse_if(short, f"draws_.info[{shown(name)}] has too few entries.")
    wanted, n_points = METHODS[method].resume if method in METHODS else type(None), sizes["p"]
    if made:
        refuse_if(draws.coef, "draws_.coef is there, and predictor_.origin, too.")
        n_machines = 0
    elif not draws.coef:
        cells = isinstance(draws.resume, HeldCells) and method == "ep"
        wanted, n_points, n_machines = HeldCells if cells else type(None), 0, 0
        refuse_if(draws.centres, "draws_.centres are there without draws.")
    found = len(draws.coef), sizes["q"]
    refuse_if(
        found != (n_machines, n_points),
        f"draws of {found} machines and points, not of {(n_machines, n_points)}.",
    )
    resume = type(draws.resume)
    refuse_if(resume is not wanted, f"draws_.resume is a {resume.__name__} for {method!r}.")
    uneven = draws.coef and (n_draws < 1 or n_draws % n_chains)
    refuse_if(uneven, f"draws_.n_draws is {n_draws}, of {n_chains} chains.")
    n_balls = n_machines * n_chains
    refuse_if(sizes.get("b", n_balls) != n_balls, f"{sizes.get('b')} balls, not {n_balls}.")


def _check_shells(table: Shells, shells: Any, sizes: dict[str, int]) -> None:
    n_shells = sizes["a"] * sizes["e"]
    refuse_if(sizes["g"] != n_shells, f"table_.products is of {sizes['g']} shells, not {n_shells}.")
    points = {getattr(table, f.name) is None for f in fields(table) if f.default is None}
    refuse_if(len(points) > 1, "table_ has some arrays over points, and lacks others.")
    part = table.means is not None and sizes["s"] != sizes["p"]
    refuse_if(part, "table_.means are there, and not all points support.")
    if isinstance(shells, tuple):
        whole = len(shells) == 2 and all(type(n) is int and n >= 0 for n in shells)
        inside = whole and shells[0] < sizes["a"] and shells[1] < sizes["e"]
        refuse_if(not inside, f"shells_ is {shown(shells)}, none of the table.")
