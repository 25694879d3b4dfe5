"""What all pictures share: colours, sizes, and matplotlib, imported when something is drawn."""

from collections.abc import Sequence
from typing import Any

from bayespoint._support.types import Array

# Okabe and Ito's colours, told apart with any colour vision; dashes tell curves apart in grey.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
)  # fmt: skip
DASHES = ("-", "--", "-.", ":")

# Points; readable when the picture is halved.
LABEL_SIZE = 14
TEXT_SIZE = 13

# Of a legend to the right of its axes.
BESIDE: dict[str, Any] = {
    "loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0, "frameon": False,
    "fontsize": TEXT_SIZE, "labelspacing": 0.8,
}  # fmt: skip


def pyplot(name: str) -> Any:
    """Return matplotlib's pyplot for the display ``name``."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{name} needs matplotlib; run: pip install 'bayespoint[plot]'"
        ) from error
    return plt


def axes_of(display: Any, ax: Any, size: tuple[float, float] | None = None) -> Any:
    """Return the axes that a display draws on and holds: by default of a new figure, in inches."""
    if ax is None:
        ax = pyplot(type(display).__name__).subplots(figsize=size, layout="constrained")[1]
    display.ax_, display.figure_ = ax, ax.figure
    return ax


def label_axes(ax: Any, xlabel: str, ylabel: str) -> None:
    """Say what the axes show."""
    ax.set_xlabel(xlabel, fontsize=LABEL_SIZE)
    ax.set_ylabel(ylabel, fontsize=LABEL_SIZE)


def percent(share: float, _position: int) -> str:
    """Share in percent, as matplotlib's formatters call it."""
    return f"{100 * share:g}%"


def draw_curve(ax: Any, x: Array, y: Array, label: str | None, **kwargs: Any) -> Any:
    """Draw a curve over shares, the nth on these axes in its own colour and dashes; return it."""
    nth = sum(line.get_linestyle() != "None" for line in ax.lines)
    style = {
        "color": COLOURS[nth % len(COLOURS)], "linestyle": DASHES[nth % len(DASHES)],
        "linewidth": 2.5, "label": label,
    }  # fmt: skip
    (line,) = ax.plot(x, y, **(style | kwargs))
    ax.xaxis.set_major_formatter(percent)
    ax.tick_params(labelsize=TEXT_SIZE)
    ax.set_xlim(0, 1)
    ax.grid(alpha=0.3)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=TEXT_SIZE)
    return line


def check_lengths(display: Any, names: Sequence[str], what: str) -> None:
    """Refuse arrays of a display that do not hold one value each for the same, and some, things."""
    n = getattr(display, names[0]).size
    for name in names:
        shape = getattr(display, name).shape
        if not n or shape != (n,):
            raise ValueError(f"{name} must hold one value per {what}, shape ({n},); got {shape}.")
