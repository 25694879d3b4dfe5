"""KGS figure 3: decision boundaries of 50 draws, for several rates of label noise."""

import base64
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.ndimage import zoom
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace, inference
from bayespoint._support.types import Array
from bayespoint.displays.style import BLUE, LABEL_SIZE, VERMILION
from bayespoint.papers.reproduction.item import ERRORS, Claim, Data, Item, Row, Run
from bayespoint.papers.reproduction.tools import means

POINTS = 76
DRAWS = 50
RATES = (0.0, 0.05, 0.1, 0.2)

# The paper's set is not given: each class is a mixture of two normal distributions.
CENTRES = np.array([[-2.0, -0.6], [1.0, -0.2], [-0.8, 1.2], [2.2, 1.4]])
SPREAD = 0.8

# Chains, and their steps before the first draw and between draws.
CHAINS = 25

# Draws of the noisy billiard, by which the Gibbs sampler is checked.
CHECK = 500

# The picture: its ends, and numbers kept in each direction; it is drawn this much finer.
ENDS = ((-4.4, 4.6), (-3.0, 3.6))
COLUMNS, ROWS = 24, 18
FINER = 6
LARGEST = 127

# Boundaries of each rate that the picture shows: more cannot be followed.
SHOWN = 10


def measure(run: Run) -> Data:
    """Draw classifiers for each rate, on several data sets; keep the boundaries of the first."""
    steps = run.size(2000, 200)
    cases = [
        (run.entropy(k), rate, steps, k == 0) for k in range(run.size(20, 3)) for rate in RATES
    ]
    done = run.map(draw_classifiers, cases)
    names = list(done[0]["numbers"])
    tables = {name: np.reshape([one["numbers"][name] for one in done], (-1, len(RATES)))
              for name in names}  # fmt: skip
    step = np.diff(tables["diversity"], axis=1)
    X, y = data_set(np.random.default_rng(run.entropy(0)))
    return {
        "rates": RATES, "X": np.round(X, 3), "y": y,
        "grid_x": grid_axes()[0], "grid_y": grid_axes()[1],
        "grids": [done[k]["grids"] for k in range(len(RATES))],
        "n": len(step),
        "step_up": np.mean(step > 0, axis=0), **means(step=step, **tables),
    }  # fmt: skip


def data_set(rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw 38 points of each class."""
    which = np.repeat(np.arange(4), POINTS // 4)
    X = CENTRES[which] + SPREAD * rng.normal(size=(POINTS, 2))
    return X, np.where(which < 2, -1, 1)


def kernel(A: Array, B: Array) -> Array:
    """Return exp(-|x - x'|^2 / 2)."""
    return np.exp(-0.5 * np.sum((A[:, None] - B) ** 2, axis=-1))


def draw_classifiers(seed: list[int], rate: float, steps: int, keep: bool) -> Data:
    """Return how diverse draws of one data set are at one rate, and their outputs on a grid."""
    X, y = data_set(np.random.default_rng(seed))
    space = VersionSpace(kernel(X, X), y)
    state = int(np.random.default_rng([*seed, 1]).integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the check says more
        post = inference.sample_gibbs(
            space, DRAWS, label_noise=rate, n_chains=CHAINS, thin=steps, burn_in=steps,
            random_state=state,
        )  # fmt: skip
    check = inference.sample_billiard(space, CHECK, label_noise=rate, random_state=state)
    numbers = {
        "diversity": diversity(post.outputs),
        "check_diversity": diversity(check.outputs),
        "margin": np.mean(y * post.outputs),
        "check_margin": np.mean(y * check.outputs),
    }
    return {"numbers": numbers, "grids": pack(kernel(grid(), X) @ post.coef.T) if keep else []}


def diversity(outputs: Array) -> float:
    """Return the share of training points on which two draws differ, mean of all pairs, in %."""
    positive = np.sum(np.asarray(outputs) > 0, axis=0)
    n = len(outputs)
    return 100 * float(np.mean(2 * positive * (n - positive) / (n * (n - 1))))


def grid_axes() -> tuple[Array, Array]:
    """Return where columns and rows of the grid are at which outputs are kept."""
    return np.linspace(*ENDS[0], COLUMNS), np.linspace(*ENDS[1], ROWS)


def grid() -> Array:
    """Return the places at which outputs are kept, row by row."""
    x, y = np.meshgrid(*grid_axes())
    return np.column_stack([x.ravel(), y.ravel()])


def pack(outputs: Array) -> list[str]:
    """Return outputs, one column per draw, as text: a byte each, finest near zero."""
    outputs = outputs / np.max(np.abs(outputs), axis=0)
    bytes_ = np.round(LARGEST * np.sign(outputs) * np.sqrt(np.abs(outputs))).astype(np.int8)
    return [base64.b64encode(column.tobytes()).decode() for column in bytes_.T]


def unpack(text: str) -> Array:
    """Return the outputs of one draw on a fine grid, up to a factor."""
    roots = np.frombuffer(base64.b64decode(text), dtype=np.int8).astype(float) / LARGEST
    return zoom((np.sign(roots) * roots**2).reshape(ROWS, COLUMNS), FINER, grid_mode=False)


def compare(data: Data) -> list[Row]:
    """Check that diversity rises from each rate to the next."""
    rows: list[Row] = []
    for k, (low, high) in enumerate(pairwise(data["rates"])):
        gain, error = data["step"][k], data["step_error"][k]
        rows.append(
            Claim(
                f"draws are more diverse on the training set at q = {high:g} than at {low:g}",
                gain > ERRORS * error,
                f"two draws differ on {_value(data, k + 1)} of points, against {_value(data, k)}; "
                f"paired difference {gain:.2f} ± {error:.2f}, in {100 * data['step_up'][k]:.0f} % "
                f"of {data['n']} data sets",
                by_construction=low == 0,
            )
        )
    return rows


def _value(data: Data, k: int) -> str:
    return f"{data['diversity'][k]:.2f} ± {data['diversity_error'][k]:.2f} %"


def draw(data: Data, figure: Any) -> None:
    """Draw boundaries of one data set, one panel per rate."""
    from matplotlib.lines import Line2D

    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    X, y = np.array(data["X"]), np.array(data["y"])
    x0, x1 = (zoom(data[key], FINER, order=1) for key in ("grid_x", "grid_y"))
    for axes, rate, texts, value in zip(
        panels, data["rates"], data["grids"], data["diversity"], strict=True
    ):
        for text in texts[:: len(texts) // SHOWN]:
            axes.contour(x0, x1, unpack(text), levels=[0], colors=["0.55"], linewidths=1.2)
        marks: dict[str, Any] = {
            "linestyle": "none",
            "markersize": 8,
            "markeredgewidth": 2,
            "zorder": 3,
        }
        axes.plot(*X[y < 0].T, marker="o", color=BLUE, markerfacecolor="none", **marks)
        axes.plot(*X[y > 0].T, marker="x", color=VERMILION, **marks)
        title = f"q = {rate:g}: two draws differ\non {value:.1f} % of the points"
        axes.set_title(title, fontsize=LABEL_SIZE + 2)
        axes.set(xlim=ENDS[0], ylim=ENDS[1], xticks=[], yticks=[], aspect="equal")
    figure.legend(
        handles=[
            Line2D([], [], marker="o", color=BLUE, mfc="none", label="class −1", **marks),
            Line2D([], [], marker="x", color=VERMILION, label="class +1", **marks),
            Line2D([], [], color="0.55", label=f"boundaries of draws ({SHOWN} of {DRAWS})"),
        ],
        loc="outside lower center", ncols=3, frameon=False, fontsize=LABEL_SIZE + 1,
    )  # fmt: skip


def thoughts(data: Data) -> str:
    """Return what we make of it, with the numbers of both samplers."""
    gibbs, check = data["diversity"], data["check_diversity"]
    margin, check_margin = data["margin"], data["check_margin"]
    return f"""Two draws differ on {gibbs[0]:.0f}, {gibbs[1]:.1f}, {gibbs[2]:.1f} and
{gibbs[3]:.1f} % of the training points. The first step does not count: at q = 0 no draw errs, so
that all agree on the training set. Without noise boundaries wind around single points; from q =
0.05 on most follow the same arc between the classes and leave single points on the wrong side. The
Gibbs sampler can be trusted at 0.1 and 0.2 only, where the billiard finds the same diversity
({check[2]:.1f} and {check[3]:.1f} %) and the same mean margin. At 0.05 it has not yet arrived
(mean margin {margin[1]:.3f} against {check_margin[1]:.3f}, diversity {gibbs[1]:.1f} against
{check[1]:.1f} %), and at 0 it hardly leaves its start within 4000 steps: margins are
{margin[0]:.3f} on average where those of the billiard are {check_margin[0]:.3f}. So the boundaries
of the first panel are those of the starts. Diversity of the billiard's draws rises in the same
way."""


ITEM = Item(
    paper="KGS",
    place="figure 3",
    title="Boundaries of 50 draws at several rates of label noise",
    then="""On a synthetic set of 76 points in the plane, with the kernel exp(−‖x − x'‖²/2), the
paper draws 50 classifiers with the kernel Gibbs sampler at several rates q, and plots their
boundaries. It reads off that more noise makes classifiers more diverse on the training set.""",
    now=f"""38 points of each class, from two normal distributions of standard deviation {SPREAD:g}
each, so that the classes overlap; 20 such sets, of which the picture shows the first (percentages
in its titles are means of all sets). Rates 0, 0.05, 0.1 and 0.2, our choice. 50 draws by
`sample_gibbs`: two from each of {CHAINS} chains, 2000 steps before each draw. *Diverse* was
defined before the run as the share of training points on which two draws give different labels,
mean of all pairs; it must rise by two standard errors, paired over the sets, from each rate to the
next. {CHECK} draws of the noisy billiard check the sampler.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Four panels with the same two classes of points and 50 boundaries each. Without noise "
    "every boundary winds around single points; the higher q, the more they spread and the more "
    "points they leave on the wrong side.",
    finding="More label noise makes draws more diverse on the training set, as the paper says.",
    source="synthetic: 76 points in the plane; the paper's are not given",
    keys={
        "rates": "rates of label noise",
        "X": "points of the first set",
        "y": "their labels",
        "grid_x": "where the columns of the grid are",
        "grid_y": "where its rows are",
        "grids": "for each rate, outputs of 50 draws on the grid, row by row (base64): a byte "
        "each, 127 √(|output| / largest |output|) with the sign of the output",
        "n": "sets",
        "step": "rise of diversity from one rate to the next, in points",
        "step_up": "share of sets where it rises",
        "diversity": "share of training points on which two Gibbs draws differ, in %, for "
        "each rate",
        "check_diversity": "the same for the billiard",
        "margin": "mean margin of Gibbs draws",
        "check_margin": "the same for the billiard",
    },
    thoughts=thoughts,
    size=(9.0, 7.9),
)
