"""MNIST on a GPU: times from arrays to predictions, phases over their floors, and the billiard.

    python benchmarks/gpu.py [--part NAME ...]

Parts, all by default:

- ceilings: copy bandwidth and rates of matrix products of the card.
- mnist: the published experiment and RBF, host arrays to 10,000 predictions, median of 10 after 3.
- draws: 100 and 1,000 draws per class.
- phases: upload, Gram matrix, perceptrons, prediction, beside what bytes or operations allow.
- billiard: exact, 60,000 digits, ten classes of ten balls, with margins computed anew.
- widths: errors and rejection of the centre of mass and of perceptrons over kernels and softness.
- teacher: the same for labels that the prior has drawn, where the centre of mass must be best.
- noisy: labels wrong with probability 0.02, effective draws a minute.
- ep: expectation propagation over the number of points.
- peers: samplers and classifiers of BoTorch and GPyTorch on the same card, for scale.

MNIST comes from the folder named in BAYESPOINT_DATA. All parts need a CUDA GPU.
"""

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np
import torch

from bayespoint import BayesPointClassifier
from bayespoint.gpu.inputs import DeviceInputs
from bayespoint.gpu.kernels import exact_products, values
from bayespoint.inference.engines import engines_of
from bayespoint.papers import datasets
from bayespoint.space import diagnostics
from bayespoint.space.kernels import Kernel

POLY = {"kernel": "poly", "gamma": 1.0, "degree": 5, "coef0": 1.0, "bias": 0.0}
PUBLISHED = POLY | {"normalize_kernel": False}
RBF = {"kernel": "rbf", "gamma": 4.0, "bias": 0.0}
N_CLASSES = 10
GPU = torch.device("cuda")
REJECTED = (0.0, 0.01, 0.02, 0.05, 0.10)

# Of the teachers: points with labels and points asked for, and labels drawn from the prior.
TAUGHT, ASKED, TEACHERS = 5000, 5000, 10

# Bytes of the host's cache that rows on a GPU are asked with: as many rows as fit there.
ALL_ROWS = 1


def mnist():
    X, y, X_test, y_test = datasets.load("mnist")
    X, X_test = (np.float32(A / np.float32(255)) for A in (X, X_test))
    unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, X_test)]
    return {"published": (X, y, X_test, y_test), "rbf": (unit[0], y, unit[1], y_test)}


def model(settings, n_draws, seed, **more):
    more = {"softness": 0.0, "inference": "perceptron"} | more
    return BayesPointClassifier(
        **settings, n_draws=n_draws, random_state=seed, device="cuda", **more
    )


def seconds_of(function, repeats=5):
    """Median seconds of work on the card, by its own clock, after a first run."""
    function()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return float(np.median(times))


def bandwidth():
    numbers = torch.rand(10**9, device=GPU)
    other = torch.empty_like(numbers)
    return 2 * numbers.nbytes / seconds_of(lambda: other.copy_(numbers))


def cache_bandwidth():
    """Of the cache that all multiprocessors share: copies of what fits into it, in one graph."""
    numbers = torch.rand(2**22, device=GPU)
    other, graph, n = torch.empty_like(numbers), torch.cuda.CUDAGraph(), 100
    other.copy_(numbers)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(n):
            other.copy_(numbers)
    return 2 * n * numbers.nbytes / seconds_of(graph.replay)


def rates():
    """Operations a second of products, by precision, shaped like those of the digits."""
    A = torch.rand((16_384, 3 * 832), device=GPU) - 0.5
    work = 2 * A.shape[0] ** 2 * A.shape[1]
    half, single, double = A.half(), A[:, :832].contiguous(), A[:, :832].double()
    with exact_products():
        plain = work / 3 / seconds_of(lambda: single @ single.T)
    into = {"out_dtype": torch.float32}
    return {
        "float16, sums in float32": work / seconds_of(lambda: torch.mm(half, half.T, **into)),
        "float32": plain,
        "float64": work / 3 / seconds_of(lambda: double @ double.T),
    }


def ceilings(data):
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"copy (read and write): {bandwidth() / 1e12:.2f} TB/s")
    print(f"the same within the cache: {cache_bandwidth() / 1e12:.2f} TB/s")
    for name, rate in rates().items():
        print(f"products in {name}: {rate / 1e12:.0f} TFLOP/s")
    X = torch.from_numpy(data["published"][0][::10]).to(GPU)
    inputs = DeviceInputs(X, GPU)
    kernel = inputs.fit_layout(Kernel("linear", bias=0.0, normalize=False))
    points = inputs.points(kernel)
    exact, length = X.double() @ X.double().T, X.double().norm(dim=1)
    with exact_products():
        plain = X @ X.T
    for name, found in (("float32", plain), ("ours", values(kernel, points, points))):
        off = (found - exact).abs() / (length * length[:, None])
        print(f"  largest error of products of digits, {name}: {float(off.max()):.1e} |x| |x'|")


def kernel_of(clf):
    return clf.predictor_.support.kernel


def rows_of(clf, X, kernel=None):
    """Rows of the distinct training points, as a fit makes them."""
    distinct = DeviceInputs(X, GPU).take(clf.trained_.row)
    return distinct.rows(kernel_of(clf) if kernel is None else kernel, ALL_ROWS, None)


def end_to_end(data, settings, n_draws, seed):
    X, y, X_test, y_test = data
    start = time.perf_counter()
    clf = model(settings, n_draws, seed).fit(X, y)
    fitted = time.perf_counter()
    predicted = clf.predict(X_test)
    end = time.perf_counter()
    return clf, fitted - start, end - fitted, 100 * np.mean(predicted != y_test)


def mnist_part(data):
    for name, settings in (("published", PUBLISHED), ("rbf", RBF)):
        for seed in range(3):
            clf, *_ = end_to_end(data[name], settings, 10, seed)
        runs = [end_to_end(data[name], settings, 10, seed)[1:] for seed in range(10)]
        fit, predict, errors = zip(*runs, strict=True)
        total = np.add(fit, predict)
        print(f"{name}: host arrays to predictions {np.median(total):.3f} s (fit "
              f"{np.median(fit):.3f}, predict {np.median(predict):.3f}; {min(total):.3f} to "
              f"{max(total):.3f}), error {np.median(errors):.2f} % ({min(errors):.2f} to "
              f"{max(errors):.2f})", flush=True)  # fmt: skip
        bad = training_errors(clf, *data[name][:2])
        print(f"  training errors of the 100 perceptrons, outputs in float64: {bad}", flush=True)


def training_errors(clf, X, y):
    """Points on the wrong side of single draws, kernel values and sums in float64."""
    kernel = kernel_of(clf)
    double = replace(kernel, layout=None if kernel.layout is None else "dense, double")
    rows = rows_of(clf, X.astype(np.float64), double)
    bad = 0
    label = y[clf.trained_.row]
    for machine, coef in enumerate(clf.draws_.coef):
        outputs = rows.products(torch.from_numpy(coef.toarray()).to(GPU)).cpu().numpy()
        bad += int(np.sum(np.where(label == machine, 1, -1) * outputs <= 0))
    return bad


def draws_part(data):
    for n_draws in (100, 1000):
        _, fit, predict, error = end_to_end(data["published"], PUBLISHED, n_draws, 0)
        print(f"published, {n_draws} draws per class: fit {fit:.2f} s, predict {predict:.3f} s, "
              f"error {error:.2f} %", flush=True)  # fmt: skip


def phases(data):
    X, y, X_test, _ = data["published"]
    m, d = X.shape
    clf, *_ = end_to_end(data["published"], PUBLISHED, 10, 0)
    start = time.perf_counter()
    inputs = DeviceInputs(X, GPU)
    torch.cuda.synchronize()
    upload = time.perf_counter() - start
    inputs = inputs.take(clf.trained_.row)
    rows = inputs.rows(inputs.fit_layout(kernel_of(clf)), ALL_ROWS, None)

    def made():
        rows.n_computed = 0
        rows.ensure(())

    gram = seconds_of(made, 3)
    rate, band = rates(), bandwidth()
    print(f"upload of {X.nbytes / 1e6:.0f} MB: {upload * 1e3:.0f} ms")
    print(f"Gram matrix: {gram * 1e3:.1f} ms")
    # Half of the products, in float32 three times those of float16; the matrix is written once.
    floors = {
        "half of its products in float32": m * m * d / rate["float32"],
        "the same as three products in float16": 3 * m * m * d / rate["float16, sums in float32"],
        "its bytes": 4 * m * m / band,
    }
    for name, floor in floors.items():
        print(f"  {name}: {floor * 1e3:.1f} ms, ratio {gram / floor:.2f}")
    for n_draws in (10, 100):
        perceptron_pass(rows, clf, y, n_draws, band, cache_bandwidth())
    start = time.perf_counter()
    clf.decision_function(X_test)
    print(f"10,000 predictions, upload included: {(time.perf_counter() - start) * 1e3:.0f} ms")


def perceptron_pass(rows, clf, y, n_draws, band, cache):
    from bayespoint.inference.perceptron.runs import TIE_ULPS, permutations

    m, label = len(rows), y[clf.trained_.row]
    targets = np.where(label == np.arange(N_CLASSES)[:, None], 1, -1).astype(np.int8)
    orders = [permutations(m, 0)(k) for k in range(n_draws)]
    slack = TIE_ULPS * np.finfo(np.float32).eps * rows.diagonal
    for _ in range(2):
        wave = engines_of(rows).wave(rows, targets, np.zeros(m), slack, orders)
        torch.cuda.synchronize()
        start = time.perf_counter()
        while np.any(wave._wanted >= 0):
            wave.advance(np.flatnonzero(wave._wanted >= 0), 10**9, None)
        spent = time.perf_counter() - start
    begin = time.perf_counter()
    wave._verify(np.arange(len(wave)))
    torch.cuda.synchronize()
    verify = time.perf_counter() - begin
    spent -= verify  # the last call of advance has done it, too
    mistakes, longest = int(wave.mistakes.sum()), int(wave.mistakes.max())
    # A mistake reads a row and the places of its points, and reads and writes the outputs. Outputs
    # of few runs stay in the cache; places are shared by ten.
    card = torch.cuda.get_device_properties(GPU)
    n_bytes = 4 if wave._outputs.nbytes < card.L2_cache_size else 12
    floors = {
        f"through the cache, 16 bytes per point at {cache / 1e12:.1f} TB/s": 16 / cache,
        f"from memory, {n_bytes} bytes per point at {band / 1e12:.1f} TB/s": n_bytes / band,
    }
    print(f"perceptrons, {n_draws} draws per class: {spent * 1e3:.1f} ms for {mistakes:,} mistakes "
          f"(longest run {longest:,}, {spent / longest * 1e6:.1f} us per mistake of it); outputs "
          f"anew in float64 {verify * 1e3:.1f} ms")  # fmt: skip
    for name, each in floors.items():
        floor = mistakes * m * each
        print(f"  {name}: {floor * 1e3:.1f} ms, ratio {spent / floor:.2f}", flush=True)


def rejection(outputs, y):
    ranked = np.sort(outputs, axis=1)
    order = np.argsort(ranked[:, -2] - ranked[:, -1], kind="stable")
    wrong = (outputs.argmax(axis=1) != y)[order]
    return [100 * wrong[: round(len(y) * (1 - share))].mean() for share in REJECTED]


def show(values):
    return " ".join(f"{value:.2f}" for value in values)


def billiard_run(data, settings, n_draws, **more):
    X, y, X_test, y_test = data
    start = time.perf_counter()
    clf = model(settings, n_draws, 0, inference="billiard", decision="bayes_point", **more)
    clf.fit(X, y)
    return clf, time.perf_counter() - start, rejection(clf.decision_function(X_test), y_test)


def billiard_part(data):
    X, y, *_ = data["rbf"]
    clf, spent, table = billiard_run(data["rbf"], RBF, 200)
    info = clf.diagnostics_
    radians = clf.n_draws_ // 10 * np.pi / 2
    print(f"exact billiard, RBF gamma 4, softness 0: ten classes of ten balls, {radians:.1f} "
          f"radians per ball in {info['flight_seconds']:.2f} s after burn-in (fit {spent:.1f} s "
          f"in all), {info['bounces'].mean():,.0f} bounces per ball, "
          f"R-hat {np.max(info['rhat']):.3f}, drift {info['drift']:.1e}, "
          f"restarts {info['restarts']}")  # fmt: skip
    print(
        f"  least margin of all draws, rows in float32, sums in float64: {margins(clf, X, y):.1e}"
    )
    print(f"  error with {show(100 * np.array(REJECTED))} % rejected: {show(table)}", flush=True)


def margins(clf, X, y):
    rows = rows_of(clf, X)
    rows.ensure(())
    label, least = y[clf.trained_.row], np.inf
    for machine, coef in enumerate(clf.draws_.coef):
        coef = torch.from_numpy(coef).to(GPU)
        ridge = torch.from_numpy(clf.softness_ * rows.diagonal).to(GPU)
        outputs = rows.products(coef) + coef * ridge
        target = torch.from_numpy(np.where(label == machine, 1.0, -1.0)).to(GPU)
        least = min(least, float((target * outputs).min()))
    return least


def error_counts(clf, X, y):
    """Training errors of each draw, (n_chains, n_draws) for each machine."""
    rows = rows_of(clf, X)
    rows.ensure(())
    label, ridge = y[clf.trained_.row], torch.from_numpy(clf.softness_ * rows.diagonal).to(GPU)
    counts = []
    for machine, coef in enumerate(clf.draws_.coef):
        coef = torch.from_numpy(coef).to(GPU)
        target = torch.from_numpy(np.where(label == machine, 1.0, -1.0)).to(GPU)
        wrong = (target * (rows.products(coef) + coef * ridge) < 0).sum(dim=1)
        counts.append(wrong.cpu().numpy().reshape(clf.draws_.n_chains, -1))
    return counts


def widths(data):
    print(f"test error (%) with {show(100 * np.array(REJECTED))} % rejected by the gap")
    unit = data["rbf"]
    cases = [("poly 5, unit norm", POLY, 0.0)]
    cases += [("rbf gamma 1", RBF | {"gamma": 1.0}, softness) for softness in (0.1, 1.0)]
    cases += [("rbf gamma 4", RBF, softness) for softness in (0.0, 0.1, 1.0)]
    cases += [(f"rbf gamma {g:g}", RBF | {"gamma": g}, 0.1) for g in (8.0, 2.0)]
    for name, settings, softness in cases:
        clf = model(settings, 10, 0, softness=softness).fit(*unit[:2])
        theirs = rejection(clf.decision_function(unit[2]), unit[3])
        _, spent, ours = billiard_run(unit, settings, 100, softness=softness)
        print(f"{name:18s} softness {softness:<4g} perceptrons {show(theirs)}   centre of mass "
              f"{show(ours)}   ({spent:.0f} s)", flush=True)  # fmt: skip


def teacher(data):
    """Labels of the prior against the labels of the digits, on the same points."""
    X = np.concatenate([data["rbf"][0][:TAUGHT], data["rbf"][2][:ASKED]])
    digits = np.concatenate([data["rbf"][1][:TAUGHT], data["rbf"][3][:ASKED]])
    print(
        f"error (%) of two classes on {ASKED:,} points from {TAUGHT:,}, softness 1e-4: means of "
        f"{TEACHERS} problems (one: even or odd), and of the difference with its standard error"
    )
    for gamma in (0.5, 1.0, 2.0, 4.0):
        settings = RBF | {"gamma": gamma}
        norms = 2 - 2 * (X @ X.T).astype(np.float64)
        K = torch.from_numpy(np.exp(-gamma * norms)).to(GPU)
        lower = torch.linalg.cholesky(K + 1e-6 * torch.eye(len(K), device=GPU, dtype=K.dtype))
        white = torch.randn((len(K), TEACHERS), generator=torch.Generator(GPU).manual_seed(0),
                            device=GPU, dtype=K.dtype)  # fmt: skip
        drawn = (lower @ white).cpu().numpy().T > 0
        for name, labels in (
            ("prior", drawn),
            ("digit k or not", digits == np.arange(10)[:, None]),
            ("even or odd", [digits % 2 == 0]),
        ):
            pairs = np.array([taught(settings, X, y) for y in labels])
            gap, n = pairs[:, 1] - pairs[:, 0], len(pairs)
            error = f"+- {gap.std(ddof=1) / np.sqrt(n):.2f}" if n > 1 else "(one problem)"
            print(f"rbf gamma {gamma:<4g} {name:15s} 100 perceptrons {pairs[:, 0].mean():.2f}, "
                  f"centre of mass {pairs[:, 1].mean():.2f}, {gap.mean():+.2f} {error}",
                  flush=True)  # fmt: skip


def taught(settings, X, y):
    both = []
    for name in ("perceptron", "billiard"):
        clf = model(settings, 100, 0, inference=name, decision="bayes_point", softness=1e-4)
        clf.fit(X[:TAUGHT], y[:TAUGHT])
        both.append(100 * np.mean(clf.predict(X[TAUGHT:]) != y[TAUGHT:]))
    return both


def noisy(data):
    clf, spent, table = billiard_run(
        data["rbf"], RBF, 200, label_noise=0.02, softness=0.1, max_time=120
    )
    info = clf.diagnostics_
    minutes = info["flight_seconds"] / 60
    print(
        f"noisy billiard, q = 0.02, softness 0.1: {clf.n_draws_} draws per class in {spent:.0f} s "
        f"({info['flight_seconds']:.0f} s of flight), R-hat {np.max(info['rhat']):.2f}"
    )
    counts = error_counts(clf, *data["rbf"][:2])
    ess = np.array([diagnostics.ess(count) for count in counts])
    print(f"  training errors per machine {min(c.mean() for c in counts):.0f} to "
          f"{max(c.mean() for c in counts):.0f}; effective draws of their number "
          f"{ess.min():.0f} to {ess.max():.0f}: {ess.min() / minutes:.0f} to "
          f"{ess.max() / minutes:.0f} a minute and class")  # fmt: skip
    print(f"  error with {show(100 * np.array(REJECTED))} % rejected: {show(table)}", flush=True)


def ep(data):
    X, y, X_test, y_test = data["rbf"]
    chosen = np.flatnonzero(np.isin(y, (3, 5)))
    tested = np.flatnonzero(np.isin(y_test, (3, 5)))
    for m in (2000, 5000, len(chosen)):
        part = chosen[:m]
        clf = model(
            RBF, 20, 0, inference="ep", softness=0.1, decision="bayes_point", cache_size=8000
        )
        clf.fit(X[part[:500]], y[part[:500]])
        start = time.perf_counter()
        clf.fit(X[part], y[part])
        spent = time.perf_counter() - start
        error = 100 * np.mean(clf.predict(X_test[tested]) != y_test[tested])
        print(f"expectation propagation, digits 3 and 5, {m:,} points: {spent:.2f} s, "
              f"{np.max(clf.diagnostics_['sweeps'])} sweeps, error {error:.2f} %",
              flush=True)  # fmt: skip


def peers(data):
    """Draws of one machine of few points: BoTorch's sampler of truncated normals, and ours."""
    X, y, *_ = data["rbf"]
    pair = np.flatnonzero(np.isin(y, (3, 5)))
    for m in (200, 1000):
        part = pair[:m]
        clf = model(RBF, 320, 0, inference="billiard", softness=0.1).fit(X[part], y[part])
        info = clf.diagnostics_
        print(f"ours, {m} points: {np.min(info['ess']) / info['flight_seconds']:.0f} effective "
              f"draws per second", flush=True)  # fmt: skip
        botorch_sampler(X[part], np.where(y[part] == 5, 1.0, -1.0), m)
    gpytorch_classifier(*data["rbf"])


def botorch_sampler(X, target, m):
    try:
        from botorch.utils.probability.lin_ess import LinearEllipticalSliceSampler
    except ImportError as error:
        print(f"BoTorch: not there ({error})")
        return
    from sklearn.metrics.pairwise import rbf_kernel

    K = rbf_kernel(X.astype(float), gamma=4.0) + 0.1 * np.eye(m)
    L = torch.from_numpy(np.linalg.cholesky(K)).to(GPU)
    signs = torch.from_numpy(target).to(GPU)
    start = torch.linalg.solve_triangular(L, signs[:, None] * 0.1, upper=False)
    chains, kept = [], 100
    begin = time.perf_counter()
    for chain in range(4):
        sampler = LinearEllipticalSliceSampler(
            inequality_constraints=(-signs[:, None] * L, torch.zeros((m, 1), device=GPU).double()),
            interior_point=start, burnin=50,
        )  # fmt: skip
        torch.manual_seed(chain)
        x = sampler.draw(kept)
        x = x.reshape(-1, m) if x.shape[-1] == m else x.T.reshape(-1, m)
        outputs = x @ L.T
        unit = outputs / x.norm(dim=1, keepdim=True)
        chains.append((unit * signs).mean(dim=1).cpu().numpy())
    spent = time.perf_counter() - begin
    ess = float(diagnostics.ess(np.array(chains)))
    print(f"BoTorch's LinearEllipticalSliceSampler, {m} points: {ess / spent:.1f} effective draws "
          f"a second ({4 * kept} draws in {spent:.1f} s)", flush=True)  # fmt: skip


def gpytorch_classifier(X, y, X_test, y_test):
    try:
        import gpytorch
    except ImportError as error:
        print(f"GPyTorch: not there ({error})")
        return
    pair, tested = np.flatnonzero(np.isin(y, (3, 5))), np.flatnonzero(np.isin(y_test, (3, 5)))
    Z, t = torch.from_numpy(X[pair]).to(GPU), torch.from_numpy((y[pair] == 5).astype("f4")).to(GPU)

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self, points):
            posterior = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, posterior))
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    torch.manual_seed(0)
    network, likelihood = (
        Sparse(Z[:500].clone()).to(GPU),
        gpytorch.likelihoods.BernoulliLikelihood().to(GPU),
    )
    loss = gpytorch.mlls.VariationalELBO(likelihood, network, len(t))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
    start = time.perf_counter()
    for _ in range(200):
        rows = torch.randint(len(t), (1024,), device=GPU)
        optimiser.zero_grad()
        value = -loss(network(Z[rows]), t[rows])
        value.backward()
        optimiser.step()
    network.eval()
    with torch.no_grad():
        output = network(torch.from_numpy(X_test[tested]).to(GPU)).mean.cpu().numpy()
    error = 100 * np.mean((output > 0) != (y_test[tested] == 5))
    print(f"GPyTorch's variational classifier (500 inducing points, 200 steps), digits 3 and 5: "
          f"{time.perf_counter() - start:.1f} s, error {error:.2f} %", flush=True)  # fmt: skip


PARTS = {
    "ceilings": ceilings, "mnist": mnist_part, "draws": draws_part, "phases": phases,
    "billiard": billiard_part, "widths": widths, "teacher": teacher,
    "noisy": noisy, "ep": ep, "peers": peers,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    warnings.simplefilter("ignore")
    options, data = parser.parse_args(), mnist()
    for name in options.part:
        print(f"\n# {name}", flush=True)
        torch.cuda.empty_cache()
        PARTS[name](data)


if __name__ == "__main__":
    main()
