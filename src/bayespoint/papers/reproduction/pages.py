"""Pages about the records in a folder: an index with counts, and one page for each paper."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bayespoint.papers.reproduction import load
from bayespoint.papers.reproduction.folder import Record, read_folder, write
from bayespoint.papers.reproduction.item import (
    ANSWERED,
    BETTER,
    BY_CONSTRUCTION,
    NO,
    OPEN,
    REFUTED,
    REPRODUCED,
    YES,
    Item,
)

INDEX = "index.md"
VERDICTS = (REPRODUCED, BETTER, REFUTED, OPEN)
# All verdicts of items and of rows, as sentences count them.
WORDS = (REPRODUCED, BETTER, REFUTED, ANSWERED, YES, NO, OPEN)
PAPERS = {
    "LSB": "Herbrich and Graepel, *Large Scale Bayes Point Machines*, 2001",
    "JMLR": "Herbrich, Graepel and Campbell, *Bayes Point Machines*, 2001",
    "KGS": "Graepel and Herbrich, *The Kernel Gibbs Sampler*, 2001",
    "RM": "Ruján and Marchand, *Computing the Bayes Kernel Classifier*, 2000",
}

HOW_TO_READ = """\
- *Reproduced*: our number and the published one differ by at most two standard errors of their
  difference, plus a tolerance if the row gives one (mostly for rounding in print); or the statement
  holds in our run.
- *Better*: our number is better by more than that.
- *Refuted*: the number or statement does not hold, and the paper says enough to be sure. The text
  below the table says why.
- *Open*: it does not hold in our run, but the paper leaves out something that could explain the
  difference. The line below the table says what.
- *Answered*: the paper only asks, so that all rows of the item are questions of ours. The sentence
  after the verdict is our answer.

The verdict of any other item is that of its worst row, in the order refuted, open, better,
reproduced. Statements that no run could contradict (*holds by construction*) are shown but not
counted. Rows marked *our question* go beyond what the paper claims. They are answered with yes, no
or open, counted separately, and do not count for the verdict of an item that has other rows.
Numbers after ± are standard errors. If a paper gives none for a single run, we use the spread of
single runs of ours. Whether a row that fails is open or refuted was decided after its outcome was
known, from what the paper leaves out; each row states its limits."""

NOT_RUN = """\
Every table and every figure with something to measure is an item. These figures have nothing to
measure: JMLR 1, 3 and 11, KGS 2, R&M 18.5 to 18.10 (drawings that explain a method). JMLR 4 is the
same picture as LSB 1.

No paper published its points. Items on public data sets (MNIST, USPS, sonar, Wisconsin breast
cancer, Rätsch's sets) load them with `bayespoint.papers.datasets.load`: from the folder named by
the environment variable `BAYESPOINT_DATA`, otherwise from the user's cache folder, otherwise from
OpenML. `bayespoint reproduce --fetch` downloads them from where they are published and checks them.
Splits that were never published are made from a seed, and the item says so. All other items run on
synthetic data made as the paper describes, or as we chose if it does not: the column *data* of each
page says which."""

FILES = """\
`NAME.png` is the picture of an item, `NAME.json` its numbers. From these,
`bayespoint reproduce all --redraw --output FOLDER` writes tables, pictures and pages again without
a new run. The keys of a JSON file:

- `name`, `title`: the item.
- `version`, `seed`, `n_jobs`, `seconds`: version of bayespoint, seed, processes, and time of the
  run.
- `quick`: true for a small run (`--quick`), whose sizes are not the published ones. What fails in a
  small run is open.
- `data`: what was measured; `keys` says what each of its keys holds. `x_error` is the standard
  error of `x`.
- `verdict`: the verdict of the item.
- `rows`: one object per row of the table, with `what`, `unsaid` (what the paper leaves out) and
  `verdict`. Numbers have `published`, `measured`, their standard errors `published_error` and
  `measured_error`, `tolerance`, `better` (which direction) and `digits` (in print). Statements have
  `holds`, `seen` (what our run shows), `by_construction` and `ours` (our question, whose verdict
  is `yes`, `no` or `open`).
- `cells`: the same rows as text: what, published, ours, verdict.
"""


def write_pages(folder: str | Path) -> Path:
    """Write the pages about all items whose numbers are in the folder; return that of the index."""
    folder = Path(folder)
    records = read_folder(folder)
    for paper in PAPERS:
        if theirs := _of(paper, records):
            write(folder / page_name(paper), paper_page(paper, theirs))
    write(folder / INDEX, index(records))
    return folder / INDEX


def page_name(paper: str) -> str:
    """Return the file of a paper's page."""
    return f"{paper.lower()}.md"


def counts(records: Iterable[Record], ours: bool = False) -> Counter[str]:
    """Count the verdicts of rows: of what papers say, or of our questions."""
    rows = (row for record in records for row in record["rows"])
    verdicts = (row["verdict"] for row in rows if row.get("ours", False) == ours)
    return Counter(verdict for verdict in verdicts if verdict != BY_CONSTRUCTION)


def share(records: list[Record]) -> str:
    """Say in a sentence what became of items, of rows and of our questions."""
    items = Counter(record["verdict"] for record in records)
    theirs, ours = counts(records), counts(records, ours=True)
    parts = (
        ("item", "items", items, _in_words(items)),
        ("published number or statement", "published numbers and statements", theirs,
         _in_words(theirs)),
        ("question of our own", "questions of our own", ours, _in_words(ours)),
    )  # fmt: skip
    texts = [
        f"{found.total()} {one if found.total() == 1 else many}: {words}"
        for one, many, found, words in parts
        if found
    ]
    return "; ".join(texts) + "."


def _in_words(found: Counter[str]) -> str:
    return ", ".join(f"{found[word]} {word}" for word in WORDS if found[word])


def index(records: list[Record]) -> str:
    """Return the index in Markdown: counts, how to read them, items, and the files."""
    quick = [record["name"] for record in records if record["quick"]]
    papers = [paper for paper in PAPERS if _of(paper, records)]
    lines = [
        "# The papers, reproduced",
        "",
        "Look up here which results of four papers hold when they are computed again, and find the "
        "numbers behind each answer.",
        "",
        f"**{share(records)}**",
        "",
        "| paper | items | " + " | ".join(VERDICTS) + " |",
        "|---|---" + "|---" * len(VERDICTS) + "|",
        *(_paper_line(paper, _of(paper, records)) for paper in papers),
        "",
        "The columns count published numbers and statements. "
        f"Written by `bayespoint reproduce all` ({_run(records)}).",
        *(["", f"**Small runs**, not as published: {', '.join(quick)}."] if quick else []),
        "",
        "## How to read the verdicts",
        "",
        HOW_TO_READ,
        "",
        "## Items",
        "",
        "| item | what was found | verdict |",
        "|---|---|---|",
        *map(_item_line, records),
        "",
        "## What is not here, and where data come from",
        "",
        NOT_RUN,
        "",
        "## The files",
        "",
        FILES,
        "```{toctree}",
        ":hidden:",
        "",
        *(f"{_shown(paper)} <{page_name(paper)[:-3]}>" for paper in papers),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _of(paper: str, records: list[Record]) -> list[Record]:
    return [record for record in records if load(record["name"]).paper == paper]


def _shown(paper: str) -> str:
    return paper.replace("RM", "R&M")


def _paper_line(paper: str, records: list[Record]) -> str:
    found = counts(records)
    numbers = " | ".join(str(found[verdict]) for verdict in VERDICTS)
    link = f"[{_shown(paper)}]({page_name(paper)}): {PAPERS[paper]}"
    return f"| {link} | {len(records)} | {numbers} |"


def _item_line(record: Record) -> str:
    item = load(record["name"])
    link = f"[{item.name}]({page_name(item.paper)}#{anchor(item.name)})"
    # Findings are about runs as published.
    found = item.title if record["quick"] else item.finding
    return f"| {link} | {_one_line(found)} | {record['verdict']} |"


def paper_page(paper: str, records: list[Record]) -> str:
    """Return the page of one paper in Markdown."""
    lines = [
        f"# {_shown(paper)}: {PAPERS[paper]}",
        "",
        "Look up here, item by item, what the paper did, what our run did, and the numbers of both "
        "side by side ([how to read the verdicts](index.md#how-to-read-the-verdicts)).",
        "",
        f"**{share(records)}**",
        "",
        "| item | data | rows | processes | seconds |",
        "|---|---|---|---|---|",
        *map(_run_line, records),
    ]
    for record in records:
        lines += _section(load(record["name"]), record)
    return "\n".join(lines) + "\n"


def _run_line(record: Record) -> str:
    item = load(record["name"])
    theirs, ours = counts([record]), counts([record], ours=True)
    both = [_in_words(theirs)] if theirs else []
    both += [f"our questions: {_in_words(ours)}"] if ours else []
    return (
        f"| [{item.place}](#{anchor(item.name)}) | {_one_line(item.source)} | {'; '.join(both)} | "
        f"{record['n_jobs']} | {record['seconds']:.0f} |"
    )


def _section(item: Item, record: Record) -> list[str]:
    """Return the lines about one item."""
    lines = [
        "",
        f"({anchor(item.name)})=",
        f"## {item.place[0].upper()}{item.place[1:]}: {item.title}",
        "",
        f"**{record['verdict'].capitalize()}.** {'' if record['quick'] else item.finding.strip()}",
        "",
        f"*The paper.* {item.then.strip()}",
        "",
        f"*Our run* (`bayespoint reproduce {item.name}`). {item.now.strip()}",
        "",
        "| | published | ours | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(map(_escaped, cells))} |" for cells in record["cells"]]
    unsaid = dict.fromkeys(row["unsaid"] for row in record["rows"] if row["verdict"] == OPEN)
    lines += ["", f"*Open, because* {'; '.join(unsaid)}."] if unsaid else []
    lines += _splits(record["data"].get("origins", {}))
    lines += ["", f"![{item.alt.strip()}]({item.name}.png)"]
    # Thoughts are about runs as published.
    if item.thoughts and not record["quick"]:
        lines += ["", f"*Why.* {item.why(record['data']).strip()}"]
    return lines


def _splits(origins: dict[str, str]) -> list[str]:
    """Return the lines about splits: sets whose splits come from the same place stand together."""
    names: dict[str, list[str]] = {}
    for name, origin in origins.items():
        names.setdefault(origin, []).append(name)
    texts = [f"{', '.join(sets)}: {origin}" for origin, sets in names.items()]
    return ["", f"*Splits.* {'; '.join(texts)}."] if texts else []


def anchor(name: str) -> str:
    """Return the link target of an item."""
    return name.replace(".", "-")


def _one_line(text: str) -> str:
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _run(records: list[Record]) -> str:
    """Say of which size, version and seed the records are, and how long they took."""
    kinds = {record["quick"] for record in records}
    size = "as published" if kinds == {False} else "quick" if kinds == {True} else "mixed sizes"
    versions, seeds = (sorted({str(r[key]) for r in records}) for key in ("version", "seed"))
    seconds = sum(record["seconds"] for record in records)
    return (
        f"{size}; version {', '.join(versions)}, seed {', '.join(seeds)}; the times of the items "
        f"add up to {f'{seconds:.0f} s' if seconds < 120 else f'{seconds / 60:.0f} min'}"
    )
