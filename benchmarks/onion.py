"""The onion as published and ours beside rejection sampling, and R&M's experiments.

    python benchmarks/onion.py [--part onion leave-one-out wbc sonar] [--runs N]

- onion: shells as published and ours, beside shells by rejection.
- leave-one-out: outputs at points left out, from one run and from a run for each point.
- wbc: R&M 18.6, Wisconsin breast cancer, leave-10-out.
- sonar: R&M table 18.1, and test errors over the width of the kernel (sonar_width.png).

Data sets come from the folder named in BAYESPOINT_DATA, pictures go to docs/_static.
"""

import time

import numpy as np
from billiard import max_margin, stderr
from joblib import Parallel, delayed
from published import (
    MARKERS,
    N_JOBS,
    angles,
    finish,
    flipper,
    gram_of,
    map_runs,
    plain_ticks,
    run_parts,
    sonar_angle,
    units,
    with_bias,
    wrong,
)
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace, datasets, inference, onion
from bayespoint.displays.style import COLOURS, DASHES, LABEL_SIZE, pyplot

ONION_DEPTH = 2
ONION_BOUNCES = 5000
REJECTION_DRAWS = 4_000_000

SONAR_WIDTHS = np.geomspace(1, 30, 11)
SONAR_TICKS = (1, 2, 4.4, 10, 20, 30)
SHELL_DRAWS = 160_000

# R&M table 18.1: test errors among labels -1 and +1.
TABLE_18_1 = np.array([
    [(3, 5), (1, 8), (1, 12), (1, 17), (0, 20), (0, 21)],
    [(5, 5), (2, 5), (1, 7), (1, 7), (1, 8), (1, 10)],
    [(5, 5), (3, 5), (2, 6), (1, 5), (1, 9), (1, 15)],
    [(5, 5), (4, 5), (3, 7), (1, 5), (1, 6), (1, 8)],
    [(7, 5), (5, 5), (4, 6), (3, 6), (1, 7), (1, 7)],
    [(8, 2), (5, 5), (4, 5), (4, 5), (3, 5), (1, 6)],
])  # fmt: skip


# ---------------------------------------------------------------------- onion


def shells_by_rejection(Z, y, n_draws, rng):
    """Counts, and sums of unit vectors with their squares, of each shell, by (n_minus, n_plus)."""
    shape = (np.count_nonzero(y < 0) + 1, np.count_nonzero(y > 0) + 1)
    D = Z.shape[1]
    counts, sums, squares = np.zeros(shape), np.zeros((*shape, D)), np.zeros((*shape, D))
    for _ in range(n_draws // 100_000):
        w = rng.standard_normal((100_000, D))
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        wrong = (w @ Z.T) * y < 0
        cells = np.ravel_multi_index((wrong[:, y < 0].sum(1), wrong[:, y > 0].sum(1)), shape)
        counts += np.bincount(cells, minlength=counts.size).reshape(shape)
        for j in range(D):
            for total, values in ((sums, w[:, j]), (squares, w[:, j] ** 2)):
                total[..., j] += np.bincount(cells, values, counts.size).reshape(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / counts[..., None]
        length = np.linalg.norm(means, axis=-1)
        spread = np.sum(squares / counts[..., None] - means**2, axis=-1)
        return counts, means / length[..., None], np.degrees(np.sqrt(spread / counts) / length)


def published_shells(space, directions, seed):
    table = onion.published_onion(
        space, ONION_DEPTH, n_bounces=ONION_BOUNCES, directions=directions, random_state=seed
    )
    return table.centres, np.exp(table.log_volume)


def onion_problem(Z, y, n_runs, seed):
    """Print a row a shell; return the angles of the published centres."""
    space = VersionSpace(Z @ Z.T, y)
    counts, exact, exact_error = shells_by_rejection(
        Z, y, REJECTION_DRAWS, np.random.default_rng(seed)
    )
    ours = onion.sample_onion(space, ONION_DEPTH, 200_000, random_state=seed)
    tables = {
        directions: map_runs(published_shells, n_runs, space, directions)
        for directions in ("coefficients", "isotropic")
    }
    inside = tuple(slice(n) for n in ours.counts.shape)
    share = counts[inside] / counts[inside].sum()
    print(f"{len(y)} walls on the {Z.shape[1] - 1}-sphere, labels {y.astype(int).tolist()}")
    off = {directions: [] for directions in tables}
    for cell in np.argwhere(ours.counts):
        cell = tuple(cell)
        if counts[cell] < 1000 or not exact_error[cell] < 2:  # rare, or symmetric about zero
            continue
        angle = angles(Z.T @ ours.centres[cell], exact[cell])
        error = np.hypot(np.degrees(ours.centre_errors[cell]), exact_error[cell])
        volume = np.exp(ours.log_volume[cell])
        line = (
            f"  {cell[0]},{cell[1]}    {share[cell]:.4f}  {volume:.4f} "
            f"({volume * ours.log_volume_errors[cell]:.4f})   {angle:5.2f} ({error:.2f})   "
        )
        for directions, runs in tables.items():
            found = np.array([centres[cell] @ Z for centres, _ in runs])
            shares = np.array([shares[cell] for _, shares in runs])
            noise = np.degrees(np.sqrt(np.sum(np.var(found, axis=0, ddof=1)) / len(found)))
            off[directions].append(angles(units(found.mean(axis=0)), exact[cell]))
            line += (
                f"{shares.mean():.4f}  {off[directions][-1]:5.2f} "
                f"({np.hypot(noise, exact_error[cell]):.2f})     "
            )
        print(line, flush=True)
    return off


def onion_part(n_runs):
    n_runs = n_runs or 16
    print(f"\nshells of few training errors by rejection ({REJECTION_DRAWS:,} draws of the prior), "
          f"by sample_onion (200,000 draws)\nand as published ({n_runs} runs of "
          f"{ONION_BOUNCES:,} bounces): share of the volume, as published of the length, and "
          "degrees\nfrom the true centre to the mean (what an exact one would show by chance)"
          )  # fmt: skip
    print("         true    sample_onion                      published, coefficients    "
          "published, isotropic\n"
          "shell   volume  volume (stderr)  degrees          length   degrees           "
          "length   degrees")  # fmt: skip
    off = {"coefficients": [], "isotropic": []}
    for seed, (m, dimension) in enumerate(((5, 3), (6, 3), (8, 3), (5, 4), (6, 4), (8, 4))):
        rng = np.random.default_rng([183, seed])
        Z, teacher = rng.standard_normal((m, dimension)), rng.standard_normal(dimension)
        y = np.sign(Z @ teacher)
        for directions, values in onion_problem(Z, y, n_runs, seed).items():
            off[directions] += values
    for directions, values in off.items():
        print(f"published, {directions}: degrees off in {len(values)} shells: largest "
              f"{np.max(values):.2f}, median {np.median(values):.2f}")  # fmt: skip


# ---------------------------------------------------------------------- sonar


def cell_text(errors):
    return "-" if np.isnan(errors[0]) else f"{errors.sum():.0f} ({errors[0]:.0f},{errors[1]:.0f})"


def print_table(title, table):
    print(f"{title}\n      " + "".join(f"{'+' + str(k):>12s}" for k in range(table.shape[1])))
    for k, row in enumerate(table):
        print(f"   -{k}  " + "".join(f"{cell_text(cell):>12s}" for cell in row))


def sonar_widths_run(seed):
    """Test errors of each machine at one width."""
    sigma = SONAR_WIDTHS[seed]
    space, cross, y_test = with_bias(sonar_angle(), sigma)
    shells = onion.sample_onion(space, 5, SHELL_DRAWS // 4, random_state=0)
    table = shells.errors(cross, y_test).sum(axis=-1)
    noise = shells.best_noise()
    exact = inference.sample_billiard(space, 20_000, random_state=0)
    mixture = shells.combine(shells.density(label_noise=noise))
    cell = shells.best_cell()
    return (
        {
            "maximal margin": wrong(cross, y_test, margin_coef(space)),
            "flipper": wrong(cross, y_test, flipper(space, 20_000, "coefficients").bayes_point()),
            "billiard": wrong(cross, y_test, exact.bayes_point()),
            "onion, shell by leave-one-out": int(table[cell]),
            "onion, mixture by leave-one-out": wrong(cross, y_test, mixture),
            "onion, best shell in hindsight": int(np.nanmin(table)),
        },
        cell,
        noise,
    )


def margin_coef(space):
    """Coefficients of the maximal-margin direction."""
    L = np.linalg.cholesky(gram_of(space))
    return np.linalg.solve(L.T, max_margin(space.y[:, None] * L))


def sonar(_):
    print("\nR&M table 18.1: sonar, split by aspect angle, sigma = 4.4, features standardised, RBF "
          "with bias: test errors of 104\n(labels -1, labels +1) of the centres of shells with so "
          "many training errors")  # fmt: skip
    data = sonar_angle()
    space, cross, y_test = with_bias(data, 4.4)
    ours = onion.sample_onion(space, 5, SHELL_DRAWS, random_state=0, n_jobs=N_JOBS)
    published = onion.published_onion(space, 5, n_bounces=20_000, bias=1.0, random_state=0)
    print_table("published", TABLE_18_1)
    tables = {"published_onion": published.errors(cross, y_test)}
    tables["sample_onion"] = ours.errors(cross, y_test)
    for title, table in tables.items():
        print_table(title, table)
        off = np.abs(table.sum(axis=-1) - TABLE_18_1.sum(axis=-1))
        print(f"  shells that differ from the published table: {np.count_nonzero(off)} of "
              f"{np.count_nonzero(~np.isnan(off))}, by {np.nanmean(off):.1f} on average, "
              f"{np.nanmax(off):.0f} at most")  # fmt: skip
    print_table("leave-one-out errors of sample_onion", ours.leave_one_out_errors())
    print("degrees of the centres' stated errors: "
          f"{np.degrees(np.nanmin(ours.centre_errors)):.2f} to "
          f"{np.degrees(np.nanmax(ours.centre_errors)):.2f}")  # fmt: skip
    cell, noise = ours.best_cell(), ours.best_noise()
    mixture = ours.combine(ours.density(label_noise=noise))
    print(f"chosen by leave-one-out: shell {cell}, {cell_text(tables['sample_onion'][cell])} "
          f"errors; label noise {noise:g}, {wrong(cross, y_test, mixture)} errors; maximal margin "
          f"{wrong(cross, y_test, margin_coef(space))}")  # fmt: skip
    raw, raw_cross, _ = with_bias(sonar_angle(standardised=False), 4.4)
    post = inference.sample_billiard(raw, 20_000, random_state=0)
    print(
        "features as they are: billiard "
        f"{wrong(raw_cross, y_test, post.bayes_point())} errors, maximal margin "
        f"{wrong(raw_cross, y_test, margin_coef(raw))}; the published table begins with 8"
    )
    sonar_widths()


def sonar_widths():
    runs = map_runs(sonar_widths_run, len(SONAR_WIDTHS))
    names = list(runs[0][0])
    print("\ntest errors of 104 over the kernel width sigma, as above\n sigma  "
          + "  ".join(names) + "  shell  label noise")  # fmt: skip
    for sigma, (row, cell, noise) in zip(SONAR_WIDTHS, runs, strict=True):
        print(f"{sigma:6.2f}  " + "  ".join(f"{row[name]:{len(name)}d}" for name in names)
              + f"  {cell[0]},{cell[1]}    {noise:g}")  # fmt: skip
    plt = pyplot("sonar_width")
    fig, ax = plt.subplots(figsize=(8, 6.5), layout="constrained")
    for k, name in enumerate(names):
        ax.plot(
            SONAR_WIDTHS, [row[name] for row, _, _ in runs], label=name, color=COLOURS[k],
            linestyle=DASHES[k % 4], marker=MARKERS[k], markersize=8, linewidth=2,
        )  # fmt: skip
    ax.set(xscale="log", ylim=(0, None))
    plain_ticks(ax, SONAR_TICKS)
    ax.set_xlabel("kernel width σ (standardised features)", fontsize=LABEL_SIZE)
    ax.set_ylabel("test errors of 104", fontsize=LABEL_SIZE)
    finish(fig, "sonar_width.png")


# ---------------------------------------------------------------------- Wisconsin breast cancer


def wbc_fold(K, X, y, train, test, bias):
    """Test errors of maximal margin, billiard and flipper; error of the second in degrees."""
    _, first = np.unique(np.column_stack([X[train], y[train]]), axis=0, return_index=True)
    train = train[first]  # equal rows with equal labels are one wall
    space = VersionSpace(K[np.ix_(train, train)], y[train])
    cross = K[np.ix_(test, train)]
    post = inference.sample_billiard(space, 600, travel=4.5 * np.pi, random_state=0)
    played = flipper(space, 3000, "coefficients", bias=bias)
    centres = margin_coef(space), post.bayes_point(), played.bayes_point()
    return [wrong(cross, y[test], coef) for coef in centres] + [post.bayes_point_error()]


def wbc_order(X, y, bias, order):
    """Errors of all folds of ten in a random order; mean error of the billiard in degrees."""
    K = rbf_kernel(X, gamma=1 / (2 * 1.75**2)) + bias
    rows = np.random.default_rng([1998, order]).permutation(len(y))
    folds = [rows[k : k + 10] for k in range(0, len(y), 10)]
    parts = Parallel(n_jobs=N_JOBS)(
        delayed(wbc_fold)(K, X, y, np.setdiff1d(rows, test), test, bias) for test in folds
    )
    *errors, off = np.sum(parts, axis=0)
    return errors, np.degrees(off) / len(folds)


def wbc(n_runs):
    n_runs = n_runs or 5
    X, y = datasets.load("wbc")
    distinct, labelled = np.unique(X, axis=0), np.unique(np.column_stack([X, y]), axis=0)
    print(f"\nWisconsin breast cancer, sigma = 1.75, hard boundary (softness 0): leave-10-out "
          f"errors of {len(y)}; published: 25 maximal\nmargin, 23 billiard, of 670. "
          f"{len(distinct)} distinct rows, {len(labelled) - len(distinct)} of them with both "
          "labels. Flipper of 3,000 bounces.")  # fmt: skip
    for bias in (0.0, 1.0):
        print(f"bias {bias:g}\norder  maximal margin  billiard (its error, degrees)  flipper")
        totals = []
        for order in range(n_runs):
            errors, off = wbc_order(X, y, bias, order)
            totals.append(errors)
            print(f"{order:5d}  {errors[0]:14.0f}  {errors[1]:8.0f} ({off:.2f})                "
                  f"{errors[2]:7.0f}", flush=True)  # fmt: skip
        mean, gain = np.mean(totals, axis=0), np.subtract(*np.transpose(totals)[:2])
        print(f" mean  {mean[0]:14.1f}  {mean[1]:8.1f}                       {mean[2]:7.1f}\n"
              f"maximal margin less billiard: {gain.mean():+.1f} ({stderr(gain):.1f})")  # fmt: skip


def without_point(space, i):
    """Output at a point of the Bayes point of the others."""
    kept, K = np.arange(len(space)) != i, gram_of(space)
    rest = VersionSpace(K[np.ix_(kept, kept)], space.y[kept])
    return K[i, kept] @ inference.sample_billiard(rest, 4000, random_state=i).bayes_point()


def leave_one_out(_):
    print("\nleave-one-out outputs of version space: from one run of the onion, and from a run for "
          "each point left out\n(sonar, split by aspect angle, sigma = 4.4, features standardised, "
          "RBF with bias)")  # fmt: skip
    space, _, _ = with_bias(sonar_angle(), 4.4)
    begun = time.perf_counter()
    shells = onion.sample_onion(space, 5, SHELL_DRAWS, random_state=0, n_jobs=N_JOBS)
    ours = shells.leave_one_out(shells.density(cell=(0, 0)))
    once = time.perf_counter() - begun
    begun = time.perf_counter()
    tasks = (delayed(without_point)(space, i) for i in range(len(space)))
    each = np.array(Parallel(n_jobs=N_JOBS)(tasks))
    apart = time.perf_counter() - begun
    print(
        f"correlation {np.corrcoef(ours, each)[0, 1]:.4f}, largest difference "
        f"{np.abs(ours - each).max():.4f}, deviation of the outputs {each.std():.4f}"
    )
    print(
        f"errors {np.sum(space.y * ours <= 0)} and {np.sum(space.y * each <= 0)} of {len(space)}; "
        f"seconds {once:.1f} (all 36 shells) and {apart:.1f} (one shell)"
    )


PARTS = {
    "onion": onion_part, "leave-one-out": leave_one_out, "wbc": wbc, "sonar": sonar,
}  # fmt: skip


if __name__ == "__main__":
    run_parts(PARTS, __doc__.splitlines()[0])
