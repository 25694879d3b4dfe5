"""Every table and figure of the four papers, one file each: ``bayespoint reproduce``.

Each file defines ``ITEM``: what the paper did, our run, the numbers of both side by side, and a
picture. ``item`` has what an item is made of and the rule for verdicts, ``folder`` runs items and
keeps their numbers, pictures and page, ``tools`` has what several items compute. Problems that
several of them share: ``digits``, ``teachers`` (random perceptrons), ``toys`` (in three
dimensions), ``polygons`` (in the plane), ``noisy_sphere`` and ``rm_kernel`` (sonar, the flipper).
"""

from importlib import import_module

from bayespoint.papers.reproduction.item import Item

# In the order of the papers; "rm-figure-18.11" is in rm_figure_18_11.py.
NAMES = (
    "lsb-figure-1",
    "lsb-figure-2",
    "lsb-question",
    "jmlr-figure-2",
    "jmlr-figure-5",
    "jmlr-figure-6",
    "jmlr-figure-7",
    "jmlr-figure-8",
    "jmlr-figure-9",
    "jmlr-figure-10",
    "jmlr-figure-12",
    "jmlr-table-1",
    "kgs-figure-1",
    "kgs-figure-3",
    "kgs-figure-4",
    "rm-figure-18.1",
    "rm-figure-18.2",
    "rm-figure-18.3",
    "rm-figure-18.4",
    "rm-figure-18.11",
    "rm-figure-18.12",
    "rm-figure-18.13",
    "rm-table-18.1",
    "rm-breast-cancer",
)


def load(name: str) -> Item:
    """Return the item with that name."""
    if name not in NAMES:
        raise ValueError(f"there is no item {name!r}; there are: {', '.join(NAMES)}")
    module = name.replace("-", "_").replace(".", "_")
    return import_module(f"bayespoint.papers.reproduction.{module}").ITEM
