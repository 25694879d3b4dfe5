"""What fit leaves in a classifier: the name, type, shape and range of every attribute."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

LAYOUTS = ("dense", "sparse", "dense, double", "sparse, double")
DECISIONS = ("bayes_point", "vote", "calibrated", "span_vote")

# Kinds of NumPy.
FLOATS, WHOLE, TRUTH = "f", "iu", "b"


class Array(NamedTuple):
    """An array: kinds of NumPy, letters of its axes, and what its values must be.

    Letters: f features, n rows given to fit, c classes, m machines, p distinct points, s support
    points, u points with coefficients, d draws, b balls of all machines, a and e shells, 2 two,
    ``*`` any length.
    """

    axes: str
    kinds: str = FLOATS
    finite: bool = True
    below: str = ""  # letter of what the array indexes
    needed: bool = True  # else None will do


class Plain(NamedTuple):
    """A single value: its types, and bounds where it is a number."""

    types: tuple
    least: float | None = None
    below: float | None = None
    finite: bool = True
    choices: tuple = ()
    needed: bool = True


NUMBER = (int, float, np.integer, np.floating)

FITTED = {
    "n_features_in_": Plain((int,), least=0),
    "classes_": Array("c", kinds="biufUO"),
    "_n_samples_": Plain((int,), least=1),
    "_log_weight_": Array("c"),
    "_class_share_": Array("c"),
    "_class_noise_": Array("c"),
    "label_noise_": Plain((float, np.ndarray)),
    "_noise_": Plain(NUMBER, least=0, below=1),
    "inference_": Plain((str,), choices=("perceptron", "billiard", "gibbs", "ep", "onion")),
    "inference_reason_": Plain((str,)),
    "_decision_": Plain((str,), choices=DECISIONS),
    "_settings_": Plain((dict,)),
    "_entropy_": Plain((int,), least=0),
    "gamma_": Plain(NUMBER, least=0),
    "bias_": Plain(NUMBER, least=0),
    "softness_": Plain(NUMBER, least=0),
    "_center_": Array("f", needed=False),
    "_layout_": Plain((str,), choices=LAYOUTS, needed=False),
    "_draws_": Plain((dict,), needed=False),
    "_points_row_": Array("p", kinds=WHOLE, below="n"),
    "n_draws_": Plain((int, np.integer), least=0),
    "bayes_point_error_": Array("m", finite=False),
    "diagnostics_": Plain((dict,)),
    "_whitener_": Array("*p", needed=False),
    "_kappa_": Plain(NUMBER, least=0, finite=False),  # NaN where votes do not use it
    "_gaussian_": Plain((dict,), needed=False),
    "_label_proba_": Array("nc", finite=False, needed=False),
    "_used_": Array("u", kinds=WHOLE, below="p"),
    "dual_coef_": Array("ms"),
    "support_": Array("s", kinds=WHOLE, below="n"),
    "support_vectors_": Plain((np.ndarray, sp.csr_matrix, sp.csr_array)),
    "_support_": Plain((dict,)),
}
OPTIONAL = {
    "device_": Plain((str,), choices=("cpu", "cuda")),  # from schema 1 on, but not at once
    "feature_names_in_": Array("f", kinds="O"),
    "_chosen_noise_": Array("c"),
    "log_evidence_": Plain(NUMBER),
    "_label_": Array("n", kinds=WHOLE, below="c"),
    "_mean_diagonal_": Plain(NUMBER),
}
ONION = {
    "shells_": Plain((float, tuple)),
    "_table_": Plain((dict,), needed=False),
    "_link_points_": Plain((dict,)),
    "counts_": Array("ae", kinds=WHOLE),
    "log_volume_": Array("ae", finite=False),
    "loo_errors_": Array("ae2", kinds="iuf", finite=False),
    "edge_share_": Plain(NUMBER, finite=False),
}
OPTIONAL_ONION = OPTIONAL | {"centres_": Array("aep", finite=False)}

# Entries of the dicts.
SUPPORT = {
    "squared_norm": Array("s", needed=False),
    "scale": Array("s", needed=False),
    "length": Array("s"),
}
GAUSSIAN = {"mean": Array("mp"), "reducer": Array("mpp"), "sign": Array("mp")}
DRAWS = {
    "coef": Plain((list,)),
    "bayes_points": Array("mp"),
    "angle_errors": Array("m", finite=False),
    "mean_norms": Array("m", finite=False),
    "used": Array("mp", kinds=TRUTH),
    "n_draws": Plain((int, np.integer), least=0),
    "n_chains": Plain((int, np.integer), least=1),
    "finished": Plain((bool, np.bool_)),
    "info": Plain((dict,)),
}
BALLS = {
    "path": Array("bp"), "kicks": Array("bp"), "last": Array("bp"), "kick_centres": Array("mp"),
    "kick_errors": Array("m", finite=False),
}  # fmt: skip
DRAWS_OF = {
    "perceptron": {
        "sum_coef": Array("mp"), "sum_output": Array("mp"), "numbers": Array("d", kinds=WHOLE),
        "violated": Array("dm", kinds=WHOLE), "finished": Array("d", kinds=TRUTH),
    },
    "billiard": BALLS,
    "gibbs": BALLS,
    "ep": {"sites": Array("m2p", finite=False)},
    "onion": {},
}  # fmt: skip
TABLE = {
    "y": Array("p"), "means": Array("aep"), "products": Array("**"),
    "counts": Array("ae", kinds=WHOLE), "log_volume": Array("ae", finite=False),
    "loo_weights": Array("aep"), "loo_sums": Array("aep"),
}  # fmt: skip
LINK_POINTS = {"label": Array("p", kinds=WHOLE, below="c"), "weight": Array("p"),
               "length": Array("p")}  # fmt: skip

REJECTING = {
    "classes_": Array("c", kinds="biufUO"),
    "threshold_": Plain(NUMBER, finite=False),
    "coverage_": Plain(NUMBER),
    "risk_bound_": Plain(NUMBER),
}
OPTIONAL_REJECTING = {
    "n_features_in_": Plain((int,), least=0),
    "feature_names_in_": Array("f", kinds="O"),
}
