"""Draw the pictures of the sampling guide: run its Python blocks, save the displays they make.

Usage: python docs/figures.py
"""

import re
from pathlib import Path

import matplotlib

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "guides" / "sampling.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# From the names of displays on the page to files.
PICTURES = {"on_sphere": "sphere.png", "by_chain": "trace.png"}


def main():
    matplotlib.use("Agg")
    names: dict = {}
    for code in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        exec(compile(code, str(PAGE), "exec"), names)
    for name, file in PICTURES.items():
        figure = names[name].figure_
        figure.savefig(DOCS / "_static" / file, dpi=100, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
