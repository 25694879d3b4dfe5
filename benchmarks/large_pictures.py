"""Pictures of what large.py measured: log-loss by the number of rows, and by the time of fits."""

from matplotlib.figure import Figure

STYLES = {
    "ours": ("#0072b2", "o", "-"), "boosting": ("#d55e00", "s", "--"),
    "trees, calibrated": ("#009e73", "^", ":"), "trees": ("#009e73", "^", ":"),
    "logistic": ("#cc79a7", "D", "-."), "Nystroem": ("#e69f00", "v", "-."),
}  # fmt: skip
NAMES = {"ours": "bayespoint", "Nystroem": "Nystroem, logistic"}


def draw_growth(kept, names):
    """Log-loss against the number of rows, one panel a data set."""
    figure = Figure(figsize=(4 * len(names), 4), layout="constrained")
    for ax, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for method, (colour, marker, style) in STYLES.items():
            rows = [r for r in kept if r["data"] == name and r["method"] == method]
            rows.sort(key=lambda row: row["rows"])
            if rows:
                ax.plot(
                    [r["rows"] for r in rows], [r["loss"] for r in rows], color=colour,
                    marker=marker, ls=style, ms=7, lw=2, label=NAMES.get(method, method),
                )  # fmt: skip
        ax.set(xscale="log", yscale="log")
        ax.set_title(name, fontsize=15)
        ax.set_xlabel("training rows", fontsize=14)
        ax.set_xticks([500, 2_000, 10_000], ["500", "2,000", "10,000"])
        plain_ticks(ax)
    figure.axes[0].set_ylabel("log-loss of new rows", fontsize=14)
    figure.axes[0].legend(fontsize=13)
    return figure


def draw_times(kept):
    """Error and log-loss against the time of the fit."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    for ax, (value, label) in zip(
        figure.subplots(1, 2), (("error", "error, %"), ("loss", "log-loss")), strict=True
    ):
        for row in kept:
            colour, marker, _ = STYLES[row["method"]]
            name = NAMES.get(row["method"], row["method"])
            ax.plot(row["fit"], row[value], marker, color=colour, ms=12, label=name)
        ax.set(xscale="log", yscale="log")
        ax.set_xlabel("time of the fit on two cores, s", fontsize=14)
        ax.set_ylabel(label, fontsize=14)
        ax.margins(y=0.12)
        ax.set_xticks([1, 10, 100, 1_000], ["1", "10", "100", "1,000"])
        ax.set_xlim(1, 1_000)
        plain_ticks(ax)
    figure.axes[1].legend(fontsize=13, loc="lower left")
    return figure


def plain_ticks(ax):
    """Plain numbers on the axis of values."""
    low, high = ax.get_ylim()
    steps = [
        digit * 10.0**power
        for power in range(-3, 3)
        for digit in ((1, 2, 5) if high > 8 * low else (1, 1.5, 2, 3, 3.5, 4, 4.5, 5, 6, 8))
    ]
    nice = [value for value in steps if low < value < high]
    ax.set_yticks(nice, [f"{value:g}" for value in nice])
    ax.minorticks_off()
    ax.tick_params(labelsize=13)


def picture(kept, path):
    """Draw what was measured: several sizes of sets, or one of one."""
    names = list(dict.fromkeys(row["data"] for row in kept))
    several = len({row["rows"] for row in kept}) > 1
    figure = draw_growth(kept, names) if several else draw_times(kept)
    figure.savefig(path, dpi=110)
