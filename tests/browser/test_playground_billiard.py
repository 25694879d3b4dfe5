"""The billiard of the page is the exact one: against closed forms, and against the library's."""

import numpy as np
import pytest
from helpers.browser import drawn, slide, until
from helpers.thresholds import compare_means, fails_clearly, two_stage

from bayespoint import BayesPointClassifier, VersionSpace, inference
from bayespoint.displays.geometry import unit
from bayespoint.papers.reproduction.toys import Polygon

FLIGHTS = 20_000
CHAINS = 16

# Balls of the page: their mean positions, one a seed. `kick` is 2 for a right reflection.
FLY = """([seeds, flights, kick]) => {
  const space = engine.makeSpace(state.points, state);
  return seeds.map((seed) => {
    const ball = engine.warmUp(engine.makeBall(space, seed));
    ball.kick = kick;
    engine.fly(ball, flights);
    return Array.from(ball.mean.sum, (x) => x / (flights * engine.TRAVEL));
  });
}"""
PROBLEM = """() => { const s = engine.makeSpace(state.points, state);
  return { X: s.points.map((p) => [p.x, p.y]), y: s.y, G: Array.from(s.G),
    L: s.L && Array.from(s.L) }; }"""


CHAMBER = """(points) => {
  const s = engine.makeSpace(points, { kernel: "linear", softness: 0, noise: 0 });
  return { centre: s.polygon.centre, area: s.polygon.area,
    radius: s.polygon.edges ? engine.makeSvm(s).ball.radius : null };
}"""


def flown(page, seeds, flights, kick=2):
    return np.array(page.evaluate(FLY, [list(seeds), flights, kick]))


def problem(page):
    found = page.evaluate(PROBLEM)
    y, m = np.array(found["y"], dtype=float), len(found["y"])
    L = None if found["L"] is None else np.reshape(found["L"], (m, m))
    return np.array(found["X"]), y, np.reshape(found["G"], (m, m)), L


def polygon(page):
    X, y, _, _ = problem(page)
    return Polygon(unit(y[:, None] * np.column_stack([X, np.ones(len(X))])))


def degrees(a, b):
    return np.degrees(np.arccos(np.clip(unit(a) @ unit(b), -1, 1)))


@pytest.mark.parametrize("preset", ["separable", "long"])
def test_the_mean_of_many_flights_is_the_bayes_point(page, preset):
    """Within 1 degree of its closed form; a reflection that is not one is 2 degrees off or more."""
    page.evaluate(f"loadPreset('{preset}')")
    exact = polygon(page).centre()
    assert degrees(flown(page, [3], FLIGHTS)[0], exact) < 1
    assert degrees(flown(page, [3], FLIGHTS, kick=1.5)[0], exact) > 2


def test_mean_positions_of_many_balls_are_exact(page):
    """The vector, not its direction alone: 1/2 sum of edges times normals, over the area.

    Detects errors of 0.02 in a coordinate of unit vectors.
    """
    page.evaluate("loadPreset('long')")
    shape = polygon(page)
    exact = shape.edges() @ shape.normals[shape.walls] / (2 * shape.area())

    def check(length, seed, kick=2):
        return compare_means(flown(page, range(seed, seed + CHAINS), length, kick), exact)

    result = two_stage(lambda length, seed: check(length, seed % 2**20), FLIGHTS // CHAINS, seed=0)
    assert result.passed, result
    assert result.detectable < 0.03
    assert fails_clearly(check(FLIGHTS // CHAINS, 7, kick=1.5))


@pytest.mark.parametrize("settings", [{"noise": 0.1}, {"softness": 0.1}, {"kernel": "rbf"}])
def test_noise_softness_and_kernels_agree_with_the_library(page, settings):
    """Outputs of the mean at the points, in the (softened) metric, within 1 degree.

    The page is within 0.5 degrees for one seed or another, and 2 degrees off or more where its
    label noise is wrong by 0.05, as a control shows.
    """
    page.evaluate("loadPreset('toy')")
    settings = {"softness": 0.1 * (settings.get("kernel") == "rbf"), **settings}
    page.evaluate("(settings) => Object.assign(state, settings)", settings)
    X, y, G, L = problem(page)
    noise, softness = settings.get("noise", 0.0), settings["softness"]
    K = y[:, None] * G * y - softness * np.eye(len(y))
    space = VersionSpace(K, y, softness=softness)
    post = inference.sample_billiard(space, 40_000, label_noise=noise, random_state=0, n_jobs=1)
    theirs, metric = post.bayes_point(), y[:, None] * G * y

    def off():
        mean = flown(page, [3], FLIGHTS)[0]
        if L is None:  # the three weights
            return degrees(mean[:3], theirs @ unit(np.column_stack([X, np.ones(len(X))])))
        root = np.linalg.cholesky(metric)
        return degrees(root.T @ (y * np.linalg.solve(L.T, mean)), root.T @ theirs)

    assert off() < 1
    page.evaluate("(noise) => { state.noise = noise; }", noise + 0.05)
    assert off() > 2


def test_chamber_and_largest_ball_have_their_closed_forms(page):
    for preset in ("separable", "long", "toy"):
        page.evaluate(f"loadPreset('{preset}')")
        shape = polygon(page)
        found = page.evaluate(
            "() => ({ ...world.space.polygon, ball: world.svm.ball, edges: null })"
        )
        assert found["area"] == pytest.approx(shape.area() / (4 * np.pi), rel=1e-9)
        assert sorted(found["walls"]) == sorted(shape.walls.tolist())
        np.testing.assert_allclose(found["centre"], shape.centre(), atol=1e-9)
        np.testing.assert_allclose(found["ball"]["w"], shape.ball_centre, atol=1e-6)
        assert found["ball"]["radius"] == pytest.approx(shape.radius(), abs=1e-6)


def test_chambers_of_many_random_problems(page):
    """Empty where Gordan's theorem says so; else centre, area and ball are those of the library."""
    rng = np.random.default_rng(0)
    empty = 0
    for m in [3, 4, 5, 8, 12, 20] * 8:
        X = rng.normal(size=(m, 2)).round(2)
        y = np.where(X @ [1.0, 0.5] + 0.4 * rng.normal(size=m) * (m > 4) > 0.2, 1.0, -1.0)
        normals = unit(y[:, None] * np.column_stack([X, np.ones(m)]))
        points = [{"x": x[0], "y": x[1], "label": k} for x, k in zip(X.tolist(), y, strict=True)]
        found = page.evaluate(CHAMBER, points)
        if VersionSpace(y[:, None] * (normals @ normals.T) * y, y).conflict() is not None:
            empty += 1
            assert found["centre"] is None
            continue
        shape = Polygon(normals)
        np.testing.assert_allclose(found["centre"], shape.centre(), atol=1e-7)
        assert found["area"] == pytest.approx(shape.area() / (4 * np.pi), rel=1e-6)
        assert found["radius"] == pytest.approx(shape.radius(), abs=1e-6)
    assert 5 < empty < 40


# Of each problem: the chamber, the largest gap between the end of an edge and the next one's start,
# and the least margin of a corner.
CHAMBERS = """(problems) => problems.map((points) => {
  const s = engine.makeSpace(points, { kernel: "linear", softness: 0, noise: 0 });
  const { edges, area, walls } = s.polygon;
  if (!edges) return { area, walls, gap: 0, least: 0, flown: false };
  const far = (a, b) => Math.max(...a.map((x, i) => Math.abs(x - b[i])));
  const next = (j) => edges[(j + 1) % edges.length].from;
  const ends = edges.map((e, j) => [engine.along(e, s.phi, e.length), next(j)]);
  engine.fly(engine.makeBall(s, 1), 20);
  return { area, walls, flown: true, gap: Math.max(...ends.map(([a, b]) => far(a, b))),
    least: Math.min(...edges.flatMap((e) => s.phi.map((n) => engine.dot(n, e.from)))) };
})"""


def places(*points):
    return [{"x": x, "y": y, "label": label} for x, y, label in points]


def on_a_grid(rng, step, m):
    """Points on a grid, some of them twice, with the labels of a random line."""
    X = step * rng.integers(-4 / step, 4 / step + 1, size=(m, 2)).astype(float)
    X[m // 2 :: 4] = X[0]
    w = rng.normal(size=3)
    y = np.where(np.column_stack([X, np.ones(m)]) @ w > 0, 1, -1)
    return places(*zip(*X.T.tolist(), y.tolist(), strict=True))


def test_chambers_of_points_on_a_grid(page):
    """Walls through one corner, and walls twice: areas are those of rejection sampling.

    100 areas, each within five standard errors of its share: one false alarm in 17,000.
    """
    rng = np.random.default_rng(1)
    kinds = [(step, m) for step in (0.5, 1) for m in (2, 3, 6, 12, 20)] * 10
    problems = [on_a_grid(rng, step, m) for step, m in kinds]
    found = page.evaluate(CHAMBERS, problems)
    draws = unit(rng.normal(size=(20_000, 3)))
    for points, one in zip(problems, found, strict=True):
        assert one["flown"]  # none is empty
        assert one["gap"] < 1e-12
        assert one["least"] > -1e-12
        normals = np.array([[p["label"] * f for f in (p["x"], p["y"], 1)] for p in points])
        share = np.mean(np.all(draws @ normals.T > 0, axis=1))
        error = np.sqrt(one["area"] * (1 - one["area"]) / len(draws))
        assert abs(share - one["area"]) < 5 * error + 1 / len(draws)  # a draw of rare ones


def test_chambers_of_a_few_points_have_their_closed_forms(page):
    cases = [
        (places((0, 0, 1), (0, 0, 1)), 0.5),
        (places((0, 0, 1), (0, 0, 1), (0, 0, -1)), 0),
        (places((0, 0, 1), (0.1, 0, -1)), np.arctan(0.1) / (2 * np.pi)),
        # Walls through the same two corners.
        (places((0, 0, 1), (1, 0, 1), (-1, 0, 1)), 1 / 4),
        (places((1, 0, 1), (-1, 0, 1), (0, 0, 1)), 1 / 4),
        (places((1, 0, 1), (0, 0, 1), (2, 0, -1)), (np.arctan(2) - np.pi / 4) / (2 * np.pi)),
        (places((1, 0, 1), (-1, 0, 1), (0, 0, -1)), 0),
        (places((1, 1, 1), (-1, -1, -1)), np.arccos(-1 / 3) / (2 * np.pi)),
    ]
    found = page.evaluate(CHAMBERS, [points for points, _ in cases])
    np.testing.assert_allclose([one["area"] for one in found], [a for _, a in cases], atol=1e-12)


def test_one_point_and_a_kernel_give_the_arcsine_law(watched):
    """P(f(x) > 0 | f(z) > 0) = 1/2 + asin(rho) / pi; 0.04 is more than four standard errors."""
    page = watched.open(hash="#k=rbf&g=0.5&s=0.01&p=0,100a")
    drawn(page, 3000)
    found = page.evaluate("""[[32, 45], [40, 39], [32, 50], [20, 20]].map(([i, j]) =>
      [node(i, GRID), node(j, GRID), world.p[j * GRID + i]])""")
    for x, y, p in found:
        rho = np.exp(-0.5 * (x**2 + (y - 1) ** 2)) / 1.01
        assert p == pytest.approx(0.5 + np.arcsin(rho) / np.pi, abs=0.04)


def test_the_svm_of_a_kernel_is_optimal(page):
    """Karush-Kuhn-Tucker: margins are 1 or more, and 1 where a coefficient is positive."""
    for preset, gamma in (("moons", 0.6), ("kgs", 0.1)):
        page.evaluate(
            "([preset, gamma]) => { loadPreset(preset); state.gamma = gamma; changed(); }",
            [preset, gamma],
        )
        until(page, "world.svm.done")
        _, _, G, _ = problem(page)
        alpha = np.array(page.evaluate("Array.from(world.svm.alpha)"))
        margins = G @ alpha
        assert alpha.min() >= 0
        assert margins.min() > 1 - 2e-5
        np.testing.assert_allclose(margins[alpha > 0], 1, atol=2e-5)


@pytest.mark.parametrize("preset", ["separable", "wrong", "ring"])
def test_copied_code_gives_the_shading(page, preset):
    """The library, fitted by the code that the page copies, has the page's probabilities.

    Shares of 3,000 and of 2,000 votes differ by a standard error of 0.0145 at most, and 0.072 is
    five of them: an error of 0.1 is found. A control, rows of the grid
    shifted by one, is off by twice as much as is allowed.
    """
    page.evaluate(f"loadPreset('{preset}')")
    if preset == "wrong":
        slide(page, "softness", 21)
    drawn(page, 3000)
    grid = page.evaluate("Array.from({ length: GRID }, (_, k) => node(k, GRID))")
    shown = np.array(page.evaluate("Array.from(world.p)")).reshape(len(grid), len(grid))
    names = {}
    exec(page.evaluate("pythonCode()"), names)
    clf = names["clf"]
    assert isinstance(clf, BayesPointClassifier)
    assert clf.classes_.tolist() == ["blue", "orange"]
    chosen = np.array(grid)[4::11]
    places = np.stack(np.meshgrid(chosen, chosen), axis=-1).reshape(-1, 2)
    expected = clf.predict_proba(places)[:, 1].reshape(len(chosen), len(chosen))
    assert np.abs(shown[4::11, 4::11] - expected).max() < 0.072
    assert np.abs(np.roll(shown[4::11, 4::11], 1, axis=0) - expected).max() > 0.144
