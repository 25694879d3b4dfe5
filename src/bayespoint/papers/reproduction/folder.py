"""Runs items into a folder: numbers as JSON, a picture each, and one page about all of them."""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bayespoint import __version__
from bayespoint.displays.style import pyplot
from bayespoint.papers.reproduction import NAMES, load
from bayespoint.papers.reproduction.item import (
    BY_CONSTRUCTION,
    NOT_REPRODUCED,
    Data,
    Item,
    Run,
    overall,
)

# What is kept of a run, as JSON.
Record: TypeAlias = dict[str, Any]

PAGE = "index.md"
DOTS_PER_INCH = 100
COLOURS = 128
PAPERS = {
    "LSB": "Herbrich and Graepel, *Large Scale Bayes Point Machines*, 2001",
    "JMLR": "Herbrich, Graepel and Campbell, *Bayes Point Machines*, 2001",
    "KGS": "Graepel and Herbrich, *The Kernel Gibbs Sampler*, 2001",
    "RM": "Ruján and Marchand, *Computing the Bayes Kernel Classifier*, 2000",
}


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
    record = record | {
        "title": item.title,
        "verdict": overall(rows),
        "rows": [plain(asdict(row) | {"verdict": row.verdict}) for row in rows],
        "cells": [row.cells() for row in rows],
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw_item(item, record["data"], folder / f"{item.name}.png")
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    _write(folder / f"{item.name}.json", text + "\n")
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


def write_page(folder: str | Path) -> Path:
    """Write the page about all items whose numbers are in the folder; return its path."""
    path = Path(folder) / PAGE
    _write(path, page(read_folder(folder)))
    return path


def counted(record: Record) -> list[str]:
    """Return the verdicts of the rows that count: not of those that hold by construction."""
    verdicts = (row["verdict"] for row in record["rows"])
    return [verdict for verdict in verdicts if verdict != BY_CONSTRUCTION]


def share(records: list[Record]) -> str:
    """Say in a sentence how many items and rows are reproduced."""
    items = Counter(record["verdict"] for record in records)
    rows = Counter(verdict for record in records for verdict in counted(record))
    texts = []
    for kind, counts in (("items", items), ("numbers and statements", rows)):
        fine = counts.total() - counts[NOT_REPRODUCED]
        better = f", {counts['better']} of them better" if counts["better"] else ""
        texts.append(f"{fine} of {counts.total()} {kind} ({fine / counts.total():.0%}){better}")
    return f"Reproduced: {'; '.join(texts)}."


def page(records: list[Record]) -> str:
    """Return the page about some records, in Markdown."""
    quick = [record["name"] for record in records if record["quick"]]
    seconds = sum(record["seconds"] for record in records)
    lines = [
        "# The papers, reproduced",
        "",
        f"**{share(records)}**",
        "",
        f"Written by `bayespoint reproduce all` ({_size(records)}; version "
        f"{', '.join(sorted({record['version'] for record in records}))}, "
        f"seed {', '.join(sorted({str(record['seed']) for record in records}))}; the times of the "
        f"items add up to {_duration(seconds)}{_runs(records)}).",
        *(["", f"**Small runs**, not as published: {', '.join(quick)}."] if quick else []),
        "",
        "A number is *reproduced* when ours and the published one differ by at most two standard "
        "errors of their difference, and the tolerance where one is stated (rounding in print, "
        "mostly); beyond that it is *better* or *not reproduced*. An item fails when one of its "
        "rows does. Numbers after ± are standard errors. Where the paper prints none, its number "
        "has the spread of a single run of ours, if it comes from a single run. Of *lsb-question* "
        "nothing was published: its rows are hypotheses, and it counts as an item all the same. "
        "Statements that our run could not contradict *hold by construction*: they are shown, and "
        "count neither for an item nor in the share.",
        "",
        "| item | what it shows | verdict | rows | processes | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for record in records:
        verdicts = counted(record)
        fine = sum(verdict != NOT_REPRODUCED for verdict in verdicts)
        lines.append(
            f"| [{record['name']}](#{_anchor(record['name'])}) | {record['title']} | "
            f"{record['verdict']} | {fine} of {len(verdicts)} | {record['n_jobs']} | "
            f"{record['seconds']:.0f} |"
        )
    paper = None
    for record in records:
        item = load(record["name"])
        if item.paper != paper:
            paper = item.paper
            lines += ["", f"## {paper.replace('RM', 'R&M')}", "", f"{PAPERS[paper]}."]
        lines += _section(item, record)
    return "\n".join(lines) + "\n"


def _section(item: Item, record: Record) -> list[str]:
    """Return the lines of the page about one item."""
    lines = [
        "",
        f"({_anchor(item.name)})=",
        f"### {item.place[0].upper()}{item.place[1:]}: {item.title}",
        "",
        f"**{record['verdict'].capitalize()}.** `bayespoint reproduce {item.name}`",
        "",
        f"*Then.* {item.then.strip()}",
        "",
        f"*Now.* {item.now.strip()}",
        "",
        "| | published | ours | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_escaped(cell) for cell in cells)} |" for cells in record["cells"]]
    lines += ["", f"![{item.alt.strip()}]({item.name}.png)"]
    # Thoughts are about runs as published.
    if item.thoughts and not record["quick"]:
        lines += ["", f"*Why.* {item.why(record['data']).strip()}"]
    return lines


def _anchor(name: str) -> str:
    return name.replace(".", "-")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _size(records: list[Record]) -> str:
    kinds = {record["quick"] for record in records}
    return "as published" if kinds == {False} else "quick" if kinds == {True} else "mixed sizes"


def _runs(records: list[Record]) -> str:
    """Say so where items were not run in one go."""
    several = len({record["n_jobs"] for record in records}) > 1
    return ", in several runs with as many processes as the table says" if several else ""


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


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


def _write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
