"""What fit leaves in a classifier: the type, shape and range of every attribute and field.

Model files are written and read by this table alone: a new fitted attribute, or a new field of one
of these dataclasses and named tuples, needs an entry here.
"""

from typing import Any, NamedTuple

import numpy as np

from bayespoint.estimators import predictors
from bayespoint.estimators.base import Trained
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.confidence import RULES
from bayespoint.estimators.importances import Importances
from bayespoint.estimators.onion import OnionClassifier
from bayespoint.estimators.parameters import DECISIONS
from bayespoint.estimators.prediction_sets import PredictionSetClassifier
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.estimators.settings import Settings
from bayespoint.estimators.shells import Shells
from bayespoint.estimators.streams import Stream
from bayespoint.inference.billiard.method import BallPaths
from bayespoint.inference.draws import Draws
from bayespoint.inference.ep.cells.method import CellSettings, HeldCells
from bayespoint.inference.ep.cells.prediction import CellModel
from bayespoint.inference.ep.method import HeldSites
from bayespoint.inference.ep.origin import Origin
from bayespoint.inference.methods import METHODS
from bayespoint.inference.perceptron.ensemble import PerceptronSums
from bayespoint.space.kernels import KERNELS, Kernel, Points
from bayespoint.space.left_out import Before
from bayespoint.space.links import Link

LAYOUTS = ("dense", "sparse", "dense, double", "sparse, double")

# Polynomials of higher degree overflow or vanish, and would take too long.
MAX_DEGREE = 1000

# What methods keep to go on from.
RESUMES = (
    *dict.fromkeys(m.resume for m in METHODS.values() if m.resume is not type(None)), HeldCells,
)  # fmt: skip

# Attributes that are not always there.
OPTIONAL = (
    "feature_names_in_", "held_out", "gamma_choice", "importances", "kernel_name", "stream_",
    "costs_", "origin", "n_wrong", "hashes", "n_wanted",
)  # fmt: skip

# Finite values of arrays go no further: the squares of larger ones overflow, and answers are NaN.
MOST_VALUE = 1e150

# Lengths that are never 0: machines, shells, the rank of a Gram matrix.
NEVER_EMPTY = {"m": "machines", "a": "shells", "e": "shells", "r": "the whitener"}

# Rows that any stream may have seen: numbers of rows stay exact, whatever is added to them.
MOST_SEEN = 2**53

# What other attributes tell, or only the fit itself can: no file holds it.
FOLLOWS = "follows"

NUMBER = (int, float, np.integer, np.floating)
COUNT = (int, np.integer)
TRUTH = (bool, np.bool_)


class Array(NamedTuple):
    """An array: letters of its axes, kinds of NumPy, and what its values must be.

    A letter is one length wherever it stands: f features, n rows given to fit, c classes, m
    machines, p distinct points, s support points, d draws, q points of draws, b balls of all
    machines, a and e shells, g all shells, r rank, t trees, k their nodes, z their cells and one,
    o their rows, l landmarks, x features of these, w predictions of new rows, h calls of
    `partial_fit`, j decisions, y rows learnt, 2 two, 3 three.
    """

    axes: str
    kinds: str = "f"
    finite: bool = True
    below: str = ""  # letter of what the array indexes
    needed: bool = True  # else None will do
    sparse: bool = False  # a CSR matrix will do
    readable: bool = False  # it stands in the JSON
    least: float = -np.inf


class Plain(NamedTuple):
    """A single value: its types, and bounds where it is a number."""

    types: tuple[type, ...]
    least: float = -np.inf
    most: float = np.inf
    finite: bool = True
    choices: tuple[Any, ...] = ()
    needed: bool = True
    axis: str = ""  # letter of the length that it is


class Either(NamedTuple):
    """An array, or a single value."""

    array: Array
    plain: Plain
    needed: bool = True


class Part(NamedTuple):
    """One of some dataclasses or named tuples of the table."""

    classes: tuple[type, ...]
    needed: bool = True


NOT_NEGATIVE = Plain(NUMBER, least=0)
SEEN = Plain(COUNT, least=0, most=MOST_SEEN)
WIDTHS = Either(Array("f", least=0), NOT_NEGATIVE)

_CLASSIFIER = {
    "classes_": Array("c", "biufUO", readable=True), "feature_names_in_": Array("f", "O"),
    "n_features_in_": Plain((int,), least=0, axis="f"),
}  # fmt: skip
_FITTED = _CLASSIFIER | {
    "trained_": Part((Trained,)), "settings_": Part((Settings,)), "draws_": Part((Draws,)),
    "support_": Array("s", "iu", below="n"), "support_vectors_": Array("s*", sparse=True),
    "predictor_": Part((
        predictors.BayesPointPredictor, predictors.SpanVotePredictor, predictors.VotePredictor,
        predictors.GaussianPredictor, CellsPredictor,
    )),
}  # fmt: skip
_PREDICTOR = {
    "support": Part((predictors.SupportPoints,)), "bayes_points": Array("ms"),
    "committee": FOLLOWS,  # the draws
    "used": Array("s", "iu", below="p"), "log_weight": Array("c"), "softness": NOT_NEGATIVE,
    "noise": Plain(NUMBER, least=0, most=0.5),
}  # fmt: skip
_VOTE = _PREDICTOR | {"whitener": Array("rs")}

# Lengths stand before arrays that index by them.
FIELDS: dict[type, dict[str, Any]] = {
    BayesPointClassifier: _FITTED | {
        "device_": Plain((str,), choices=("cpu", "cuda")),
        "stream_": Part((Stream,), needed=False),
    },
    OnionClassifier: _FITTED | {
        "table_": Part((Shells,)), "shells_": Plain((float, tuple)),
        "edge_share_": Plain(NUMBER, finite=False),
    },
    RejectingClassifier: _CLASSIFIER | {
        "threshold_": Either(Array("c", finite=False), Plain(NUMBER, finite=False)),
        "coverage_": Plain(NUMBER, finite=False), "risk_bound_": Plain(NUMBER),
        "confidence_": Plain((str,), choices=(*RULES, "cost")),
        "costs_": Array("cj", needed=False),
    },
    PredictionSetClassifier: _CLASSIFIER | {
        "thresholds_": Array("c", finite=False), "coverage_": Plain(NUMBER, least=0, most=1),
        "mean_size_": Plain(NUMBER, least=0),
    },
    Trained: {
        "n_samples": Plain((int,), least=0, axis="n"), "row": Array("p", "iu", below="n"),
        "entropy": Plain((int,), least=0), "drawn_with": Plain((dict,)),
        "label_proba": Array("nc", finite=False, needed=False),
        "label": Array("n", "iu", below="c", needed=False),
        "n_wrong": Array("3", least=0, needed=False),
        "held_out": Array("nc", needed=False),  # None unless asked for
        "importances": Part((Importances,), needed=False),
        "hashes": Array("y", "u", needed=False),
        "n_wanted": Plain(COUNT, least=1, needed=False),
    },
    Importances: {"mean": Array("f"), "error": Array("f", least=0)},
    Settings: {
        "inference": Plain((str,), choices=(*METHODS, "onion")), "inference_reason": Plain((str,)),
        "decision": Plain((str,), choices=DECISIONS),
        "kernel_name": Plain((str,), choices=KERNELS, needed=False), "gamma": WIDTHS,
        "bias": NOT_NEGATIVE,
        "softness": NOT_NEGATIVE, "class_noise": Array("c", readable=True),
        "log_evidence": Plain(NUMBER, finite=False, needed=False),
        "cells": Part((CellSettings,), needed=False),
        "gamma_choice": Plain((dict,), needed=False),
    },
    CellSettings: {
        "cell_size": Plain(COUNT, least=2), "n_landmarks": Plain(COUNT, least=0),
        "n_trees": Plain(COUNT, least=1),
    },
    Draws: {
        "coef": [Array("dq", sparse=True)], "bayes_points": Array("mq"),
        "angle_errors": Array("m", finite=False), "mean_norms": Array("m", finite=False),
        "used": Array("mq", "b"), "n_draws": Plain(COUNT, least=0, axis="d"),
        "n_chains": Plain(COUNT, least=1), "finished": Plain(TRUTH), "info": Plain((dict,)),
        "centres": {str: (Array("mq"), Array("m", finite=False))},
        "resume": Part(RESUMES, needed=False),
        "factor": Plain((type(None),)), "left_out": Plain((type(None),)),
    },
    PerceptronSums: {
        "sum_coef": Array("mp"), "sum_output": Array("mp"), "numbers": Array("d", "iu"),
        "violated": Array("dm", "iu"), "finished": Array("d", "b"),
        "before": Part((Before,), needed=False),
    },
    Before: {
        "seen": Array("mp"), "unseen": Array("mp"), "n_seen": Array("p", "iu"),
        "n_unseen": Array("p", "iu"),
    },
    BallPaths: {"path": Array("bp"), "kicks": Array("bp"), "last": Array("bp")},
    HeldSites: {"sites": Array("m2p", finite=False)},
    HeldCells: {"sites": Array("t2mp")},
    predictors.BayesPointPredictor: _PREDICTOR | {"link": Part((Link,))},
    predictors.SpanVotePredictor: _PREDICTOR,
    predictors.VotePredictor: _VOTE,
    predictors.GaussianPredictor: _PREDICTOR | {
        "whitener": Array("rs", needed=False), "mean": Array("ms"),
        "reducer": Array("mss", needed=False), "sign": Array("ms", needed=False),
        "link": Part((Link,), needed=False), "origin": Part((Origin,), needed=False),
    },
    Origin: {
        "sites": Array("m2p"), "copies": Array("p", least=0), "entropy": Plain((int,), least=0),
        "n_draws": Plain(COUNT, least=1, axis="d"),
    },
    CellsPredictor: _PREDICTOR | {
        "bayes_points": Array("mq"), "model": Part((CellModel,)),
        "X": FOLLOWS,  # support_vectors_
        "link": Part((Link,), needed=False),
    },
    CellModel: {
        "roots": Array("t", "i"), "normals": Array("kf"), "cuts": Array("k"),
        "children": Array("k2", "i"), "begin": Array("z", "iu"),
        "order": Array("o", "iu", below="p"), "tau": Array("mo"), "coef": Array("mo"),
        "common_mean": Array("tmx"), "common_factor": Array("tmxx"),
        "landmarks": Array("lf", needed=False, sparse=True),
        "projection": Array("lx", needed=False),
    },
    Stream: {
        "label": Array("p", "i", below="c"), "weight": Array("p", least=0),
        "number": Array("p", "i", least=0), "waiting": Array("tp", "b"),
        "seen": SEEN, "settled": NOT_NEGATIVE, "anew": SEEN,
        "z": Array("mw"), "z_label": Array("w", "i", below="c"), "z_weight": Array("w", least=0),
        "lost_precision": Array("tmxx", needed=False), "lost_shift": Array("tmx", needed=False),
        "history": Array("h2", finite=False), "origin": Plain((str,)), "fresh": Plain(TRUTH),
        "token": Plain((str,)), "merged": Plain((str,)), "dropped": SEEN,
        "pending": (),  # which saving has learnt
    },
    Link: {"weights": Array("mm"), "offset": Array("m")},
    predictors.SupportPoints: {
        "kernel": Part((Kernel,)), "points": Part((Points,)),
        "columns": Array("s", "iu", below="n", needed=False),
        "diagonal": Plain(NUMBER, needed=False),
    },
    Kernel: {
        "name": Plain((str,), choices=KERNELS), "gamma": WIDTHS, "coef0": NOT_NEGATIVE,
        "degree": Plain(NUMBER, least=1, most=MAX_DEGREE), "bias": NOT_NEGATIVE,
        "normalize": Plain(TRUTH), "layout": Plain((str,), choices=LAYOUTS, needed=False),
        "center": Array("f", needed=False),
    },
    Points: {
        "X": FOLLOWS,  # support_vectors_, laid out by the kernel
        "squared_norm": Array("s", needed=False), "scale": Array("s", needed=False),
        "length": Array("s"),
    },
    Shells: {
        "counts": Array("ae", "iu"), "log_volume": Array("ae", finite=False),
        "products": Array("gg"), "loo_errors": Array("ae2", "iuf", finite=False),
        "means": Array("aep", needed=False), "loo_weights": Array("aep", needed=False),
        "loo_sums": Array("aep", needed=False), "y": Array("p", needed=False),
        "label": Array("p", "iu", below="c", needed=False), "weight": Array("p", needed=False),
        "length": Array("p", needed=False),
    },
}  # fmt: skip
