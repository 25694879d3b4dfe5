"""CSV files as people have them: rows of one shop, written in the ways of other programs."""

import datetime
import io

import numpy as np

EPOCH = datetime.datetime(2022, 1, 1)
CITIES = ("Köln", "München", "Bonn")


def german(value, decimals=2):
    return f"{value:,.{decimals}f}".translate(str.maketrans(",.", ".,"))


class Shop:
    """Orders, and whether they came back: by size, price and weekday; some of it is noise."""

    def __init__(self, n_rows=150, seed=0, n_classes=2, rare=None, noise=0.05):
        rng = np.random.default_rng(seed)
        self.n_rows = n_rows
        self.size, self.price = rng.normal(size=n_rows), np.exp(rng.normal(7, 1.5, n_rows))
        self.hours = rng.integers(0, 24 * 700, n_rows)
        self.days = [EPOCH + datetime.timedelta(hours=int(h)) for h in self.hours]
        self.city = [CITIES[k] for k in rng.integers(0, 3, n_rows)]
        self.remark = [f'"{k}"; well, good\n' for k in rng.integers(0, 9, n_rows)]
        self.code = [f"K-{k:06d}" for k in rng.permutation(n_rows)]
        score = 2 * self.size + (np.array([day.weekday() for day in self.days]) >= 5)
        score += 0.3 * np.log(self.price)
        score += noise * rng.normal(size=n_rows)
        cuts = np.quantile(score, np.arange(1, n_classes) / n_classes)
        if rare is not None:
            cuts = np.quantile(score, [1 - rare])
        self.label = [f"class {k}" for k in np.searchsorted(cuts, score)]
        self.gaps = rng.random((n_rows, 2)) < 0.2

    def columns(self, **changed):
        """Columns by name, as texts; some may be changed, or added."""
        plain = {
            "size": [f"{x:.3f}" for x in self.size], "price": [f"{x:.2f}" for x in self.price],
            "day": [f"{day:%Y-%m-%d}" for day in self.days], "city": self.city,
        }  # fmt: skip
        return plain | changed | {"label": self.label}


def written(path, columns, rows=slice(None), *, delimiter=",", encoding="utf-8", quoted=False):
    """Write some rows of columns of text."""
    text = io.StringIO()
    for cells in [list(columns), *list(zip(*columns.values(), strict=True))[rows]]:
        if quoted:
            cells = ['"' + cell.replace('"', '""') + '"' for cell in cells]
        text.write(delimiter.join(cells) + "\r\n")
    path.write_bytes(text.getvalue().encode(encoding))
    return path
