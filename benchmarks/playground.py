# ruff: noqa: E402  the path comes first
"""Script time per frame of the playground, with 200 points: python benchmarks/playground.py.

Needs chromium and the extra browser. For each kind of picture, the time that the page's own script
takes in a frame (milliseconds, without the browser's drawing): median, 95th percentile and most.
The bar is a median of 8 ms.
"""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from helpers.browser import PAGE, at, chromium

POINTS, FRAMES, BAR = 200, 300, 8.0
CASES = {
    "linear, hard": {"kernel": "linear", "noise": 0.0, "softness": 0.0},
    "linear, 10 % label noise": {"kernel": "linear", "noise": 0.1, "softness": 0.0},
    "linear, softness 0.1": {"kernel": "linear", "noise": 0.0, "softness": 0.1},
    "RBF, softness 0.01": {"kernel": "rbf", "noise": 0.0, "softness": 0.01},
    "RBF, 10 % label noise": {"kernel": "rbf", "noise": 0.1, "softness": 0.01},
}


def points(separable):
    """Two hundred points, of two clouds that do not overlap, or do."""
    rng = np.random.default_rng(0)
    label = np.repeat([1, -1], POINTS // 2)
    X = rng.normal(size=(POINTS, 2)) * 0.8 + 1.1 * label[:, None]
    if separable:
        X += (0.6 - np.minimum(label * X.sum(axis=1), 0.6))[:, None] * label[:, None] / 2
    X = np.clip(X, -4, 4).round(2)
    return [{"x": x, "y": y, "label": int(k)} for (x, y), k in zip(X.tolist(), label, strict=True)]


def frames(page):
    page.evaluate("frameTimes.length = 0")
    while page.evaluate("frameTimes.length") < FRAMES:
        page.wait_for_timeout(100)
    return np.array(page.evaluate("frameTimes"))


def dragged(page):
    """Times while a point is dragged, so that all is computed afresh at every frame."""
    page.evaluate("frameTimes.length = 0")
    first = page.evaluate("state.points[0]")
    page.mouse.move(*at(page, first["x"], first["y"]))
    page.mouse.down()
    k = 0
    while page.evaluate("frameTimes.length") < FRAMES:
        k += 1
        page.mouse.move(
            *at(page, first["x"] + 0.3 * np.sin(k / 9), first["y"] + 0.3 * np.cos(k / 9))
        )
    page.mouse.up()
    return np.array(page.evaluate("frameTimes"))


def tell(name, times):
    median, late = np.percentile(times, [50, 95])
    verdict = "" if median <= BAR else f"  ABOVE {BAR:g} ms"
    print(f"{name:<42} {median:6.2f} {late:6.2f} {times.max():7.2f}{verdict}")


def main():
    print(f"{POINTS} points, {FRAMES} frames, ms of script a frame")
    print(f"{'':<42} median    95%    most")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 950})
        for name, settings in CASES.items():
            page.goto("about:blank")
            page.goto(PAGE.as_uri())
            hard = name == "linear, hard"
            page.evaluate(
                "(given) => { Object.assign(state, given); rebuild({ keepSvm: false });"
                " frameChamber(); updateControls(); }",
                {**settings, "points": points(separable=hard), "preset": ""},
            )
            tell(name, frames(page))
            tell(f"{name}, a point dragged", dragged(page))


if __name__ == "__main__":
    main()
