# ruff: noqa: E402  the path comes first
"""Pictures of the playground: python docs/figures_playground.py.

Needs chromium and the extras browser and cli. Writes the pictures of the guide and the animation of
the README into docs/_static.
"""

import io
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "docs" / "_static"
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from helpers.browser import PAGE, chromium, drawn
from helpers.playgrounds import served
from sklearn.datasets import load_iris

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.cli.playground.scene import Scene

# Radians that the ball flies between two pictures of the animation: slow enough to follow, then
# fast enough to see the mean settle.
SLOW, FAST = 40 * [0.16], 24 * [1.7]
WIDTH, COLOURS, MILLISECONDS = 760, 255, 90


def opened(browser, width, height, scheme="light", url=None, **options):
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, **options
    )
    page = context.new_page()
    page.goto(url or PAGE.as_uri())
    return page


def fly(page, radians):
    """Move the ball by hand: pictures do not depend on how fast they are taken."""
    page.evaluate(
        """(radians) => { state.running = true;
        moveBall(performance.now(), radians / 10 ** state.speed); state.running = false; }""",
        radians,
    )


def still(page, name, preset, radians=12.0, coverage=1.0):
    """Picture of an example once the ball has flown for some radians."""
    page.evaluate(f"loadPreset('{preset}'); state.running = false; state.coverage = {coverage}")
    drawn(page, 3000)
    for _ in range(40):
        fly(page, radians / 40)
    page.evaluate("state.running = true; updateControls(); state.running = false")
    page.wait_for_timeout(400)
    page.screenshot(path=STATIC / name)


def animation(browser):
    page = opened(browser, 1075, 720)
    page.evaluate("state.running = false; state.speed = 0; loadPreset('long')")
    drawn(page, 3000)
    boxes = [page.locator(f"#{name}").bounding_box() for name in ("plane", "space")]
    top = page.locator("#plane-title").bounding_box()["y"] - 4
    left, right = boxes[0]["x"] - 6, boxes[1]["x"] + boxes[1]["width"] + 6
    clip = {"x": left, "y": top, "width": right - left}
    clip["height"] = boxes[0]["y"] + boxes[0]["height"] + 6 - top
    frames = []
    for radians in SLOW + FAST:
        fly(page, radians)
        page.wait_for_timeout(60)
        image = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")
        frames.append(
            image.resize((WIDTH, round(WIDTH * image.height / image.width)), Image.LANCZOS)
        )
    # Colours of small things, too, have a place in the palette: swatches give them weight.
    names = page.evaluate("Object.values(colours)")
    mixed = Image.new("RGB", (WIDTH, frames[-1].height + 8 * len(names)))
    mixed.paste(frames[-1])
    for k, name in enumerate(names):
        mixed.paste(name, (0, frames[-1].height + 8 * k, WIDTH, frames[-1].height + 8 * k + 8))
    palette = mixed.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    path = STATIC / "playground.gif"
    small[0].save(
        path, save_all=True, append_images=small[1:], duration=MILLISECONDS, loop=0, optimize=True
    )
    sys.stdout.write(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {len(small)} frames\n")


def iris_scene():
    iris = load_iris()
    X, y = iris.data, iris.target_names[iris.target]
    clf = BayesPointClassifier(
        kernel="rbf", gamma=0.1, softness=0.1, bias=1.0, inference="ep", random_state=0
    )
    clf = RejectingClassifier(clf, coverage=0.9).fit(X, y)
    return Scene("flowers.csv", clf, X, iris.feature_names, range(1, 151), 150, y)


def data_picture(browser):
    with served(iris_scene()) as server:
        page = opened(browser, 1280, 800, url=server.url)
        page.wait_for_timeout(1500)
        page.evaluate(
            "state.row = data.about.rejected.indexOf(true); paintData(); showRow(state.row)"
        )
        page.wait_for_timeout(700)
        page.screenshot(path=STATIC / "playground_data.png")


def main():
    with chromium() as browser:
        still(opened(browser, 1280, 940), "playground_light.png", "long")
        dark = opened(browser, 1280, 940, "dark")
        still(dark, "playground_dark.png", "moons", radians=4.0, coverage=0.75)
        phone = opened(browser, 390, 844, device_scale_factor=2)
        still(phone, "playground_phone.png", "separable", coverage=0.8)
        data_picture(browser)
        animation(browser)


if __name__ == "__main__":
    main()
