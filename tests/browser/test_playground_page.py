"""The page in a browser: examples, points, sliders, keys, links, pictures, widths."""

import pytest
from helpers.browser import PAGE, Watched, at, drawn, next_frames, slide, until

PRESETS = ["separable", "long", "toy", "wrong", "xor", "ring", "moons", "kgs"]
HOSTILE = [
    "#p=1,2a&q=NaN&s=-5&g=1e99&c=x&v=9&o=1,2&k=<script>",
    "#p=" + "399,399a" * 5000, "#%00%ff", "#p=&k=rbf", "#__proto__=1&e=__proto__&p=0,0a0,0b",
    "#p=0,0a0,0a0,0b&k=rbf&s=0", "#m=data&x=-3&row=1e9",
]  # fmt: skip


def pixels(page, name):
    return page.locator(f"#{name}").evaluate("(e) => e.toDataURL()")


def settle(page):
    """Stop the ball and finish all work, so that the pictures change no more by themselves."""
    page.evaluate("state.running = false")
    drawn(page, 3000)
    until(page, "world.flashes.length === 0 && world.svmPath")
    next_frames(page)
    shown = pixels(page, "plane"), pixels(page, "space")
    next_frames(page)
    assert shown == (pixels(page, "plane"), pixels(page, "space"))


def test_every_example_is_drawn_and_explained(page):
    assert page.locator("#presets button").count() == len(PRESETS)
    slide(page, "speed", 1)
    for preset in PRESETS:
        page.locator(f"[data-preset={preset}]").click()
        until(page, "world.bayes && world.svmPath && world.ball.bounces > 3")
        assert page.evaluate("world.empty") is False
        assert page.locator("#warning").text_content() == ""
        assert len(page.locator("#guide").text_content()) > 60
        assert page.evaluate("world.space.linear") == (preset in PRESETS[:4])
        at = page.evaluate("Array.from(world.ball.w)")
        next_frames(page, 1)
        assert page.evaluate("Array.from(world.ball.w)") != at  # the ball flies
        until(page, "document.getElementById('facts').textContent.includes('disagree')")
    assert "Move the label noise" in page.locator("#guide").text_content()
    slide(page, "noise", 0)  # as it asks for
    assert "Move the label noise" in page.locator("#guide").text_content()
    page.locator("[data-kernel=linear]").click()
    assert "version space is empty" in page.locator("#guide").text_content()


def test_points_are_added_moved_flipped_and_removed(page):
    page.locator("#clear").click()
    for x, y, tool in ((-2, 1, "a"), (-1, 2, "a"), (2, -1, "b"), (1, -2, "b")):
        page.locator(f"[data-tool={tool}]").click()
        page.mouse.click(*at(page, x, y))
    points = page.evaluate("state.points")
    assert [p["label"] for p in points] == [1, 1, -1, -1]
    assert points[2]["x"] == pytest.approx(2, abs=0.05)
    drawn(page)
    before = page.evaluate("world.bayes.w")
    page.mouse.move(*at(page, 2, -1))
    page.mouse.down()
    page.mouse.move(*at(page, 3, 2), steps=4)
    page.mouse.up()
    until(page, "Math.abs(state.points[2].y - 2) < 0.1")
    drawn(page)
    assert page.evaluate("world.bayes.w") != before
    page.locator("[data-tool=flip]").click()
    page.mouse.click(*at(page, 3, 2))
    assert page.evaluate("state.points[2].label") == 1
    page.mouse.click(*at(page, -1, 2), button="right")
    assert page.evaluate("state.points.length") == 3
    page.locator("[data-tool=remove]").click()
    page.mouse.click(*at(page, 3, 2))
    assert page.evaluate("state.points.length") == 2
    for n in (3, 4):
        page.locator("#undo").click()
        assert page.evaluate("state.points.length") == n
    page.locator("#undo").click()  # the flip
    assert page.evaluate("state.points[2].label") == -1
    page.locator("#undo").click()  # the drag
    assert page.evaluate("state.points") == points
    page.locator("[data-tool=a]").click()
    steps = page.evaluate("past.length")
    page.mouse.click(*at(page, 2, -1))  # on a point: nothing to undo
    assert page.evaluate("past.length") == steps


def test_a_wall_lights_up_with_its_point_and_a_line_with_its_place(page):
    settle(page)
    point = page.evaluate("state.points[0]")
    dark = pixels(page, "space")
    page.mouse.move(*at(page, point["x"], point["y"]))
    until(page, "world.hoverPoint === 0")
    next_frames(page)
    assert "here\u00a00 %" in page.locator("#plane-key").text_content()  # a blue point
    assert pixels(page, "space") != dark
    box = page.locator("#space").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    until(page, "world.hoverWeights !== null")
    middle = page.evaluate("engine.angle(world.hoverWeights, world.space.polygon.centre)")
    assert middle < 0.02  # the chamber is in the middle


def test_the_shaded_side_is_the_chambers_from_everywhere(watched):
    """Colours of places well off all walls and off the rim, where lines have some width."""
    page = watched.open(hash="#l=00000&p=-187,222a133,-222b")
    next_frames(page)
    found = page.evaluate("""[0, 1.2, 1.9, 3, 4.5].flatMap((lon) => {
      Object.assign(state, { lon: state.lon + lon, lat: lon / 5 }); paintSphereBase();
      const ctx = layer("copy" + lon, sphere.width).getContext("2d", { willReadFrequently: true });
      ctx.drawImage(layer("sphere", sphere.width), 0, 0);
      const random = engine.generator(1);
      const places = Array.from({ length: 120 }, () => engine.unit([0, 1, 2].map(random.normal)));
      return places.flatMap((w) => {
        const [x, y, z] = projector().project(w), m = world.space.phi.map((n) => engine.dot(n, w));
        if (z < 0.3 || m.some((d) => Math.abs(d) < 0.05)) return [];
        const seen = ctx.getImageData(x, y, 1, 1).data;
        const green = rgb(colours.chamber).every((c, k) => Math.abs(c - seen[k]) < 3);
        return [[m.every((d) => d > 0), green]];
      });
    })""")
    assert len(found) > 100
    assert [inside for inside, _ in found] == [green for _, green in found]
    assert {inside for inside, _ in found} == {True, False}


def test_an_edit_turns_the_sphere_to_a_chamber_behind_it(page):
    page.locator("#clear").click()
    assert page.evaluate("state.zoom") == 1
    page.evaluate("turn(2, 0)")
    for x, y, tool in ((-2, 2, "a"), (1, -2, "b"), (3, -3, "b")):
        page.locator(f"[data-tool={tool}]").click()
        page.mouse.click(*at(page, x, y))
        assert page.evaluate("engine.dot(viewAxes().front, world.space.polygon.centre)") >= 0.2


def test_sliders_change_what_they_say(page):
    slide(page, "noise", 0.2)
    assert page.evaluate("[state.noise, world.space.noise]") == [0.2, 0.2]
    slide(page, "softness", 21)
    assert page.evaluate("world.space.softness") == pytest.approx(0.1)
    assert page.evaluate("world.space.size") == 15  # three weights, and one per point
    slide(page, "speed", 2)
    assert page.locator("#speed-out").text_content() == "100 rad/s"
    speed = page.get_by_role("slider", name="Speed", exact=True)
    assert speed.get_attribute("aria-valuetext") == "100 rad/s"
    for name in ("Label noise", "Softness", "Coverage of the plane"):
        assert page.get_by_role("slider", name=name, exact=True).count() == 1
    settle(page)
    whole = pixels(page, "plane")
    slide(page, "coverage", 0.6)
    next_frames(page)
    assert pixels(page, "plane") != whole
    unsure = page.evaluate("world.p.filter((p) => Math.abs(p - 0.5) < threshold(world.p)).length")
    assert unsure == pytest.approx(0.4 * 64 * 64, rel=0.05)
    page.locator("[data-kernel=rbf]").click()
    assert page.get_by_role("slider", name="Kernel narrowness γ", exact=True).is_visible()
    slide(page, "gamma", 0.5)
    assert page.evaluate("world.space.gamma") == pytest.approx(10**0.5)
    drawn(page)
    for name in ("probability", "draws", "bayes", "svm", "ball"):
        page.locator(f"[data-layer={name}]").uncheck()
    assert page.evaluate("state.layers.size") == 0


def test_an_empty_chamber_is_told_with_its_remedy(page):
    page.locator("[data-preset=wrong]").click()
    slide(page, "noise", 0)
    assert "Raise label noise or softness" in page.locator("#warning").text_content()
    next_frames(page)
    slide(page, "softness", 11)
    assert page.locator("#warning").text_content() == ""
    drawn(page)


def test_all_is_done_by_keys(page):
    page.locator("#plane").focus()
    n = page.evaluate("state.points.length")
    for key in ("a", "ArrowRight", "ArrowRight", "Shift+ArrowUp", "f"):
        page.keyboard.press(key)
    added = page.evaluate("state.points[state.points.length - 1]")
    assert added == {"x": 0.2, "y": 0.5, "label": -1}
    assert "Point 13 of 13, blue square" in page.locator("#said").text_content()
    page.keyboard.press("Delete")
    assert page.evaluate("state.points.length") == n
    page.keyboard.press("n")
    assert page.evaluate("world.chosen") == 0
    page.locator("#space").focus()
    before = page.evaluate("[state.lon, state.lat, state.zoom, state.running]")
    for key in ("ArrowLeft", "ArrowUp", "+", " "):
        page.keyboard.press(key)
    after = page.evaluate("[state.lon, state.lat, state.zoom, state.running]")
    assert all(a != b for a, b in zip(before, after, strict=True))


def test_a_link_carries_the_drawing(watched, context):
    page = watched.open()
    page.locator("[data-preset=ring]").click()
    slide(page, "coverage", 0.7)
    slide(page, "noise", 0.05)
    page.locator("[data-layer=draws]").uncheck()
    page.mouse.click(*at(page, 3, 3))
    page.locator("#theme").click()
    page.evaluate("turn(-6.2, 0)")
    until(page, "location.hash === hashOf()")
    url, shown = page.url, page.evaluate("hashOf()")
    other = Watched(context)
    copy = other.open(url)
    assert copy.evaluate("hashOf()") == shown
    assert copy.evaluate("state.points.length") == 45
    assert copy.evaluate("viewAxes().front") == pytest.approx(
        page.evaluate("viewAxes().front"), abs=1e-3
    )
    assert copy.evaluate("document.documentElement.dataset.theme") == "dark"
    copy.evaluate("location.hash = '#p=100,100a-100,-100b'")
    until(copy, "state.points.length === 2")
    assert other.complaints == []
    copy.close()


def test_any_link_opens(watched):
    for hash in HOSTILE:
        page = watched.open(hash=hash)
        next_frames(page)
        assert page.evaluate("state.points.length") <= 300
        assert page.evaluate("[state.noise, state.gamma, state.zoom].every(Number.isFinite)")


def test_hatching_does_not_depend_on_shading(page):
    drawn(page, 200)
    slide(page, "coverage", 0.6)
    coloured, plain = page.evaluate(
        """[true, false].map((coloured) => { const { image, mask } = shadingOf(world.p, coloured);
        return [image.toDataURL(), mask.toDataURL()]; })"""
    )
    assert coloured[0] != plain[0]
    assert coloured[1] == plain[1]


def test_a_slow_svm_does_not_keep_the_shading_waiting(page):
    """One that takes all the time that it is given, and never ends."""
    page.evaluate("""() => {
      loadPreset('kgs');
      world.svm = { done: false, step(deadline) { while (performance.now() < deadline); } };
    }""")
    until(page, "world.sampler.count > 0")
    assert page.evaluate("world.svm.done") is False


def test_picture_and_code_are_kept(page):
    drawn(page)
    with page.expect_download() as download:
        page.locator("#png").click()
    with open(download.value.path(), "rb") as stream:
        assert stream.read(8) == b"\x89PNG\r\n\x1a\n"
    page.locator("#copy-code").click()
    until(page, "document.getElementById('code').value.includes('BayesPointClassifier')")
    until(page, "document.getElementById('said').textContent !== ''")
    page.locator("[data-preset=wrong]").click()  # the code was of another drawing
    assert not page.locator("#code").is_visible()
    assert page.locator("#said").text_content() == ""
    slide(page, "noise", 0)
    page.locator("#copy-code").click()
    assert "the fit would fail. No line" in page.locator("#said").text_content()
    assert not page.locator("#code").is_visible()
    page.locator("#copy-link").click()
    until(page, "document.getElementById('said').textContent.includes('this computer only')")
    page.locator("#clear").click()
    page.locator("#copy-code").click()
    assert "needs points of both classes" in page.locator("#said").text_content()
    assert not page.locator("#code").is_visible()


def test_a_finger_adds_and_drags_points_and_scrolls_beside_them(browser):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = Watched(context).open(hash="#p=0,0a300,300b")
    page.touchscreen.tap(*at(page, -2, 2))
    assert page.evaluate("state.points.length") == 3
    touch = context.new_cdp_session(page)

    def swipe(x, y):
        """Upwards, by a hundred pixels."""
        left, top = at(page, x, y)
        for k in range(11):
            places = [{"x": left, "y": top - 10 * k}]
            kind = "touchMove" if k else "touchStart"
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    swipe(0, 0)
    until(page, "state.points[0].y > 1")
    assert page.evaluate("scrollY") == 0
    swipe(2, 0)
    until(page, "scrollY > 20")
    assert page.evaluate("state.points.length") == 3
    context.close()


@pytest.mark.parametrize("width", [360, 800])
def test_narrow_screens_need_no_scrolling_sideways(browser, width):
    context = browser.new_context(viewport={"width": width, "height": 740}, color_scheme="dark")
    watched = Watched(context)
    page = watched.open()
    drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator("#plane").bounding_box()["width"] > 0.4 * width
    context.close()
    assert watched.complaints == []


def test_those_who_want_less_motion_start_with_a_ball_at_rest(browser):
    context = browser.new_context(reduced_motion="reduce")
    watched = Watched(context)
    for hash in ("", "#r=1&p=100,100a-100,-100b"):
        page = watched.open(hash=hash)
        drawn(page)
        assert page.evaluate("[state.running, world.ball.bounces]") == [False, 0]
    context.close()


def test_the_page_is_one_file_that_names_no_other():
    text = PAGE.read_text(encoding="utf-8")
    for outside in ("http://", "https://", "src=", "url(", "@import", "innerHTML", "eval("):
        assert outside not in text
