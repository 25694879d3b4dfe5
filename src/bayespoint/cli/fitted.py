"""What a fitted classifier tells about itself, of plain types."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint._support.types import Array
from bayespoint.cli.output import SHOWN_MESSAGE, in_options
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.first_fit import ENDED, KEPT
from bayespoint.inference.ep.cells.method import MOST_MOVING
from bayespoint.inference.ep.cells.prediction import CellModel
from bayespoint.io.model_file import Model
from bayespoint.io.tables import counted, printable
from bayespoint.space.hashes import row_hashes

Base: TypeAlias = BayesPointClassifier | OnionClassifier
Classifier: TypeAlias = Base | RejectingClassifier

# How notes of `train` begin that say that not all was done.
CUT_SHORT = ("training was interrupted; ", "time was up; ")


def base_of(classifier: Classifier) -> Base:
    """Classifier inside one that may reject."""
    return classifier.estimator_ if isinstance(classifier, RejectingClassifier) else classifier


def class_names(classifier: Classifier) -> list[str]:
    """Classes as text, in order."""
    return [str(label) for label in classifier.classes_.tolist()]


def machine_names(base: Base) -> list[str]:
    """Class that each machine finds: of two classes the second."""
    classes = class_names(base)
    return classes if len(classes) > 2 else classes[1:]


def facts_of(classifier: Classifier) -> dict[str, Any]:
    """What a fitted classifier tells about itself; an onion knows less than the others.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier

    Returns
    -------
    dict
        Of plain types.
    """
    base = base_of(classifier)
    if isinstance(base, OnionClassifier):
        return {
            "inference": base.inference_, "gamma": _plain(base.gamma_),
            "softness": float(base.softness_), "n_draws": int(base.n_draws_),
        }  # fmt: skip
    noise = np.asarray(base.label_noise_, dtype=float)
    facts = {
        "inference": base.inference_, "reason": base.inference_reason_, "kernel": base.kernel_,
        "gamma": _plain(base.gamma_), "softness": base.softness_, "bias": base.bias_,
        "label_noise": noise.tolist(), "n_draws": int(base.n_draws_),
        "n_support": len(base.support_), "device": base.device_,
    }  # fmt: skip
    if base.settings_.gamma_choice is not None:
        facts["widths"] = base.settings_.gamma_choice["chosen"]
    if np.isfinite(evidence := getattr(base, "log_evidence_", np.nan)):
        facts["log_evidence"] = float(evidence)
    if isinstance(classifier, RejectingClassifier):
        facts |= _rejection_facts(classifier)
    return facts


def _rejection_facts(classifier: RejectingClassifier) -> dict[str, Any]:
    """What is told of thresholds and costs; None for a coverage that is not known."""
    thresholds = [t if np.isfinite(t) else str(t) for t in np.ravel(classifier.threshold_).tolist()]
    facts: dict[str, Any] = {
        "threshold": thresholds if np.ndim(classifier.threshold_) else thresholds[0],
        "coverage": None if np.isnan(classifier.coverage_) else classifier.coverage_,
    }
    if classifier.max_risk is not None:
        facts["risk_bound"] = classifier.risk_bound_
    if classifier.costs_ is not None:
        facts["costs"] = classifier.costs_.tolist()
    return facts


def cut_short(model: Model) -> list[str]:
    """Return a note on training that Ctrl-C or a time limit ended early; none on other training.

    From what `train` noted in the file and, for a model saved in Python, from the fit.
    """
    how = _noted(model.about) or _how_ended(base_of(model.classifier))
    return [f"training of this model was cut short: {how}"] if how else []


def _noted(about: Mapping[str, Any]) -> str:
    """What the last training noted about its early end."""
    last = about.get("continued", about)
    notes = last.get("notes") if isinstance(last, dict) else None
    for note in notes if isinstance(notes, list) else []:
        if isinstance(note, str) and note.startswith(CUT_SHORT):
            return printable(note.partition("; ")[2], SHOWN_MESSAGE)
    return ""


def _how_ended(base: Base) -> str:
    """How a fit ended early, as it tells itself: parameters may have been set since then."""
    kept = base.inference_reason_.partition(KEPT)[2]
    if ENDED in kept:
        return in_options(f"the model is the fit {kept}.")
    if isinstance(base, OnionClassifier):
        return ""
    if isinstance(base.predictor_, CellsPredictor):
        return _how_cells_ended(base, base.predictor_.model)
    converged = np.asarray(base.diagnostics_.get("converged", True), dtype=object)
    if not np.all(converged):
        return "expectation propagation had not converged."
    wanted = base.trained_.n_wanted
    return "" if wanted is None else f"it ended after {base.n_draws_:,} of {wanted:,} draws."


def _how_cells_ended(base: BayesPointClassifier, model: CellModel) -> str:
    """Trees that are not there, and cells that still moved; those of few rows share one cell."""
    found = []
    n_cells, n_trees = len(model.begin) - 1, len(model.roots)
    cells = base.settings_.cells
    if n_cells > 1 and cells is not None and n_trees < cells.n_trees:
        found.append(f"it ended after {n_trees:,} of {counted(cells.n_trees, 'tree')}")
    of_trees, n_cells = base.diagnostics_.get("moving"), n_cells * len(machine_names(base))
    numbers = of_trees if isinstance(of_trees, list) else []
    n_moving = sum(int(n) for n in numbers if isinstance(n, int | np.integer))
    if n_moving > MOST_MOVING * n_cells:
        found.append(f"{n_moving:,} of {counted(n_cells, 'cell')} had not converged")
    return f"{', and '.join(found)}." if found else ""


def most_violated(base: Base) -> Array | None:
    """Training points on the wrong side of each machine's worst perceptron; None of others."""
    violated = getattr(base.draws_.resume, "violated", None)
    return None if violated is None or not len(violated) else violated.max(axis=0)


def count_known(classifier: Classifier, X: Array) -> int:
    """How many rows a classifier has learnt, by their hashes."""
    base = base_of(classifier)
    hashes, support = base.trained_.hashes, base.support_vectors_
    if hashes is None or sp.issparse(support):
        return 0
    return int(np.isin(row_hashes(X.astype(support.dtype)), hashes).sum())


def _plain(widths: Any) -> float | list[float]:
    return widths.tolist() if np.ndim(widths) else float(widths)
