"""Runs items into a folder: numbers as JSON and a picture each."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bayespoint import __version__
from bayespoint.displays.style import pyplot
from bayespoint.io.model_file.files import replacing
from bayespoint.papers.reproduction import NAMES, load
from bayespoint.papers.reproduction.item import Data, Item, Run, overall

# What is kept of a run, as JSON.
Record: TypeAlias = dict[str, Any]

DOTS_PER_INCH = 100
COLOURS = 128
SMALL = "this was a small run"


def run_item(
    name: str, folder: str | Path, *, quick: bool = False, seed: int = 0, n_jobs: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> Record:  # fmt: skip
    """Run one item and write its numbers and its picture; return its record."""
    item = load(name)
    start = time.perf_counter()
    data = item.measure(Run(name, quick, seed, n_jobs, on_progress))
    seconds = time.perf_counter() - start
    record = {
        "name": name,
        "title": item.title,
        "version": __version__,
        "quick": quick,
        "seed": seed,
        "n_jobs": n_jobs,
        "seconds": round(seconds, 1),
        "data": plain(data),
    }
    return write_item(record, folder)


def write_item(record: Record, folder: str | Path) -> Record:
    """Compare and draw from the numbers in a record; write it and its picture, and return it."""
    item = load(record["name"])
    rows = item.compare(record["data"])
    if record["quick"]:
        # A small run refutes nothing.
        rows = [replace(row, unsaid=row.unsaid or SMALL) for row in rows]
    record = record | {
        "title": item.title,
        "verdict": overall(rows),
        "rows": [plain(asdict(row) | {"verdict": row.verdict}) for row in rows],
        "cells": [row.cells() for row in rows],
        "keys": item.keys,
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw_item(item, record["data"], folder / f"{item.name}.png")
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    write(folder / f"{item.name}.json", text + "\n")
    return record


def draw_item(item: Item, data: Data, path: Path) -> None:
    """Draw the picture of an item from its numbers."""
    plt = pyplot("reproduce")
    with plt.rc_context({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}):
        figure = plt.figure(figsize=item.size, layout="constrained")
        try:
            item.draw(data, figure)
            _save(figure, path)
        finally:
            plt.close(figure)


def _save(figure: Any, path: Path) -> None:
    """Write a picture with few colours: a fifth of the size, and none is missed."""
    from io import BytesIO

    from PIL import Image

    buffer = BytesIO()
    figure.savefig(buffer, dpi=DOTS_PER_INCH)
    # Other methods drop rare colours, such as that of a single marker.
    method, dither = Image.Quantize.MAXCOVERAGE, Image.Dither.NONE
    picture = Image.open(buffer).convert("RGB").quantize(COLOURS, method=method, dither=dither)
    picture.save(path, optimize=True)


def read_folder(folder: str | Path) -> list[Record]:
    """Return the records in a folder, in the order of the papers."""
    paths = (Path(folder) / f"{name}.json" for name in NAMES)
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def plain(value: Any) -> Any:
    """Return what JSON can hold: arrays as lists, NaN and infinities as null."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        # Seven digits are more than any picture shows.
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


def write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))
