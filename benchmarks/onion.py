"""The onion as published and ours beside rejection sampling, and its leave-one-out outputs.

    python benchmarks/onion.py [--part onion leave-one-out] [--runs N]

- onion: shells as published and ours, beside shells by rejection.
- leave-one-out: outputs at points left out, from one run and from a run for each point.

R&M's experiments are items of ``bayespoint reproduce``. Data sets come from the folder named in
BAYESPOINT_DATA.
"""

import time

import numpy as np
from joblib import Parallel, delayed
from published import N_JOBS, angles, gram_of, map_runs, run_parts, units

from bayespoint import VersionSpace, inference, onion, papers
from bayespoint.papers.reproduction.rm_kernel import sonar_angle, with_bias

ONION_DEPTH = 2
ONION_BOUNCES = 5000
REJECTION_DRAWS = 4_000_000

SHELL_DRAWS = 160_000


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
    table = papers.published_onion(
        space, ONION_DEPTH, n_bounces=ONION_BOUNCES, directions=directions, random_state=seed
    )
    return table.centres, np.exp(table.log_volume)


def onion_problem(Z, y, n_runs, seed):
    """Print one row per shell; return the angles of the published centres."""
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


# ---------------------------------------------------------------------- leave-one-out


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


PARTS = {"onion": onion_part, "leave-one-out": leave_one_out}


if __name__ == "__main__":
    run_parts(PARTS, __doc__.splitlines()[0])
