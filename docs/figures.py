"""Draw the pictures of the guides: run their Python blocks, save the displays they make.

Usage: python docs/figures.py
"""

import re
from pathlib import Path

import matplotlib

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# By page, from the names of displays on it to files.
PICTURES = {
    "sampling": {"on_sphere": "sphere.png", "by_chain": "trace.png"},
    "onion": {"table": "onion.png"},
    "noisy-labels": {"suspects": "label_errors.png", "figure": "boundaries.png"},
    "evidence": {"settings": "evidence.png"},
}


def main():
    matplotlib.use("Agg")
    for guide, files in PICTURES.items():
        page = DOCS / "guides" / f"{guide}.md"
        names: dict = {}
        for code in BLOCK.findall(page.read_text(encoding="utf-8")):
            exec(compile(code, str(page), "exec"), names)
        for name, file in files.items():
            figure = getattr(names[name], "figure_", names[name])
            figure.savefig(DOCS / "_static" / file, dpi=100, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
