"""Inference for all machines of a classifier at once, one class a value of ``inference=``.

A method has ``needed_bytes`` (its memory; ``n_voting`` machines vote), ``draw`` (the draws of all
machines as plain arrays, added to those of an earlier fit) and ``held_out`` (outputs at points left
out of the fit; none for a fold that has no draw). The arrays that every method gives are ``coef``
(a list, one array of draws a machine), ``bayes_points``, ``angle_errors``, ``mean_norms``, ``used``
(points with a coefficient in some draw), ``n_draws``, ``n_chains``, ``finished`` and ``info``.
Where posteriors have a closed form, ``gaussians`` holds them until the fit has taken from them what
prediction needs.
"""

from typing import Any, NamedTuple

import numpy as np

from bayespoint.inference.billiard.balls import TRAVEL, Balls, Table, run
from bayespoint.inference.billiard.chains import (
    BURN_IN,
    BURN_IN_NOISY,
    mixing,
    pass_rates,
    starts_of,
    warn_if_unmixed,
)
from bayespoint.inference.billiard.starts import start_rng
from bayespoint.inference.billiard.walkers import Walkers
from bayespoint.inference.ep.posterior import GaussianPosterior, warn_if_moving
from bayespoint.inference.ep.sites import Block, Likelihood, Sites, propagate
from bayespoint.inference.perceptron.ensemble import Ensemble
from bayespoint.inference.perceptron.runs import (
    conflict_check,
    perceptron_draws,
    permutations,
    warn_if_violated,
)
from bayespoint.space.factor import factorise
from bayespoint.space.posterior import training_errors, unit_centre
from bayespoint.space.rows import FullRows, all_rows, outputs_of, submatrix, warn_if_large
from bayespoint.space.version_space import VersionSpace

# Balls of each machine: enough to see whether they agree.
CHAINS = 4

# Flights for each draw with label noise, where positions change more slowly.
THIN_NOISY = 8

# Draws of each machine for held-out outputs, at most; flights of each ball.
HELD_OUT_DRAWS = 10

# Changes of outputs by a sweep of expectation propagation, in standard deviations: what held-out
# outputs need, and the least that rounding allows.
HELD_OUT_TOL = 1e-2
LEAST_TOLERANCE = 1e-9


class Problem(NamedTuple):
    """The binary problems of a classifier, over the same points."""

    rows: Any  # GramRows or FullRows
    targets: np.ndarray  # (n_machines, n_points), int8: +1 and -1
    softness: float
    odds: (
        np.ndarray
    )  # (n_machines, n_points): log-odds of the targets, infinite where they are sure
    log_right: np.ndarray  # (n_machines, n_points): log-probability of targets that are right
    names: list  # of the machines, for messages
    points: np.ndarray  # rows of X, for messages
    weight: np.ndarray | float = 1.0  # (n_points,), copies of the points

    @property
    def ridge(self):
        """What softness adds to the diagonal."""
        return self.softness * self.rows.diagonal

    def outputs(self, coef):
        """Outputs at the points of machines given by coefficients, one a row."""
        return outputs_of(self.rows, self.ridge, coef)

    def space(self, machine):
        """Version space of one machine."""
        return VersionSpace(self.rows, self.targets[machine], self.softness)

    def part(self, chosen):
        """Return the problem of some of the points, its Gram matrix computed."""
        if hasattr(self.rows, "part"):  # on a GPU
            rows = self.rows.part(chosen)
        else:
            rows = FullRows(submatrix(self.rows, chosen).astype(self.rows.dtype))
        return self._replace(
            rows=rows, targets=self.targets[:, chosen], odds=self.odds[:, chosen],
            log_right=self.log_right[:, chosen], points=self.points[chosen],
            weight=np.broadcast_to(self.weight, len(self.points))[chosen],
        )  # fmt: skip


class Perceptrons:
    """Permuted kernel perceptrons: each draw agrees with all labels."""

    name = "perceptron"

    @staticmethod
    def needed_bytes(n_points, itemsize, n_voting):  # noqa: ARG004
        """Rows are computed again when they do not fit."""
        return 0

    @staticmethod
    def draw(problem, n_draws, *, tol, entropy, held, budget, threads):  # noqa: ARG004
        """Add draws to those held until there are ``n_draws`` or the Bayes points are precise."""
        ensemble = Ensemble(*problem.targets.shape, outputs_of=problem.outputs)
        if held is not None and np.all(held["finished"]):  # a draw cut short is made anew
            ensemble = Ensemble.from_state(held, problem.outputs)
        orders = permutations(len(problem.rows), entropy)
        enough = np.all(ensemble.angle_errors() <= tol)
        missing = 0 if enough else max(0, n_draws - ensemble.n_draws)
        numbers = range(ensemble.next_number, ensemble.next_number + missing)
        if missing:
            warn_if_large(problem.rows, orders(numbers[0]))
        check = conflict_check(problem.space, problem.points, problem.names)
        for draw in perceptron_draws(
            problem.rows, problem.targets, problem.ridge, numbers, orders, budget=budget,
            on_exhausted=check,
        ):  # fmt: skip
            ensemble.add(draw)
            if not draw.more and np.all(ensemble.angle_errors() <= tol):
                break
        warn_if_violated(ensemble.violated)
        common = {
            "bayes_points": ensemble.bayes_points(), "angle_errors": ensemble.angle_errors(),
            "mean_norms": ensemble.mean_norms(), "used": ensemble.sum_coef != 0,
            "n_draws": ensemble.n_draws, "n_chains": 1, "info": {},
        }  # fmt: skip
        return ensemble.state() | common, None

    @classmethod
    def held_out(cls, problem, folds, *, n_draws, entropy, budget, threads):  # noqa: ARG003
        """Outputs at all points of machines trained on the points of each fold."""
        n_draws = min(n_draws, HELD_OUT_DRAWS)
        together = hasattr(problem.rows, "make_wave") and budget.max_time is None
        groups = [[number] for number in folds]
        if together:  # a GPU takes long to start and has room for all
            lengths = {len(visited) for visited in folds.values()}
            groups = [[k for k, v in folds.items() if len(v) == length] for length in lengths]
        found: dict = {}
        for group in groups:
            found |= cls._held_out_group(problem, folds, group, n_draws, entropy, budget)
        return found

    @staticmethod
    def _held_out_group(problem, folds, group, n_draws, entropy, budget):
        def order_of_draw(number):
            fold = group[number // n_draws]
            seed = np.random.SeedSequence(entropy, spawn_key=(1, fold, number % n_draws))
            return np.random.default_rng(seed).permutation(folds[fold]).astype(np.int32)

        ensembles = {
            fold: Ensemble(*problem.targets.shape, outputs_of=problem.outputs) for fold in group
        }
        for draw in perceptron_draws(
            problem.rows, problem.targets, problem.ridge, range(n_draws * len(group)),
            order_of_draw, budget=budget,
        ):  # fmt: skip
            ensembles[group[draw.number // n_draws]].add(draw)
        return {
            fold: ensemble.unit_mean_outputs()
            for fold, ensemble in ensembles.items()
            if ensemble.n_draws
        }


class Billiards:
    """The exact billiard: draws of the posterior of clean or noisy labels."""

    name = title = "billiard"
    kind: type = Balls

    @staticmethod
    def needed_bytes(n_points, itemsize, n_voting):  # noqa: ARG004
        """All rows and a factor of the Gram matrix."""
        return n_points**2 * (itemsize + 8)

    @classmethod
    def draw(cls, problem, n_draws, *, tol, entropy, held, budget, threads):
        """Fly on from where the held draws end until there are ``n_draws``."""
        # Ctrl-C while settings were chosen leaves a fit still: of the starting points.
        stop = None if budget.interrupted else lambda: budget.interrupted
        state, factor = cls._draw(problem, n_draws, tol, entropy, held, budget, threads, stop)
        n_new = state["info"]["n_draws"]
        if not budget.interrupted and factor is not None and (n_new or not state["finished"]):
            warn_if_unmixed(cls.title, n_new, state["info"]["rhat"])
        return state, factor

    @classmethod
    def _draw(cls, problem, n_draws, tol, entropy, held, budget, threads, stop=None):
        chains = getattr(problem.rows, "n_chains", lambda _: CHAINS)(len(problem.targets))
        n_chains = min(chains, n_draws) if held is None else held["n_chains"]
        n_held = 0 if held is None else held["n_draws"] // n_chains
        missing = -(-n_draws // n_chains) - n_held
        if held is not None and (missing <= 0 or np.all(held["angle_errors"] <= tol)):
            return held, None
        factor = factorise(problem.rows, problem.softness, threads, stop)
        noisy = not np.all(np.isinf(problem.odds))
        thin = THIN_NOISY if noisy else 1
        burn_in = (BURN_IN_NOISY if noisy else BURN_IN) if held is None else 0
        start = cls._starts(problem, factor, n_chains, entropy, budget) if held is None else None
        kind = getattr(problem.rows, "make_balls", cls.kind)
        balls = kind(
            cls._table(problem, factor, n_chains), held["last"] if held else start,
            np.random.SeedSequence(entropy, spawn_key=(2, n_held)),
        )  # fmt: skip
        machines = [slice(c, c + n_chains) for c in range(0, len(balls), n_chains)]

        def enough(flights):
            means, outputs = flights.coef.mean(axis=1), flights.outputs.mean(axis=1)
            return all(unit_centre(means[c], outputs[c])[1] <= tol for c in machines)

        flights = run(
            balls, missing, travel=TRAVEL, thin=thin, burn_in=burn_in, budget=budget,
            threads=threads, enough=enough,
        )  # fmt: skip
        return cls._state(problem, held, balls, flights, machines), factor

    @staticmethod
    def _table(problem, factor, n_chains):
        rates = [
            pass_rates(problem.space(machine), odds) for machine, odds in enumerate(problem.odds)
        ]
        label = np.repeat([y for y, _ in rates], n_chains, axis=0)
        rate = np.repeat([rate for _, rate in rates], n_chains, axis=0)
        return Table(problem.rows, problem.ridge, factor, label, rate)

    @staticmethod
    def _starts(problem, factor, n_chains, entropy, budget):
        find = conflict_check(problem.space, problem.points, problem.names)
        starts = []
        for machine, odds in enumerate(problem.odds):
            balls = range(machine * n_chains, (machine + 1) * n_chains)
            rngs = [start_rng(entropy, ball) for ball in balls]

            def check(_, counts, machine=machine):
                find(machine, counts)

            starts.append(
                starts_of(problem.space(machine), factor, odds, rngs, budget, check=check)
            )
        return np.concatenate(starts)

    @staticmethod
    def _state(problem, held, balls, flights, machines):
        """Join new draws and paths to those held."""
        coef, n_chains = flights.coef, len(balls) // len(machines)
        path = np.sum(flights.path, axis=0) if flights.path else coef.sum(axis=1)
        kicks = np.sum(flights.kicks, axis=0) if flights.kicks else np.zeros_like(path)
        if held is not None:
            path = path + held["path"] if flights.path else held["path"]
            kicks = kicks + held["kicks"]
            old = np.concatenate(held["coef"]).reshape(len(balls), -1, coef.shape[2])
            coef = np.concatenate([old, coef], axis=1) if flights.path else old
        outputs = outputs_of(problem.rows, problem.ridge, path)
        means = coef.mean(axis=1)
        mean_outputs = outputs_of(problem.rows, problem.ridge, means)
        centres, errors, norms, mixed = [], [], [], []
        for target, chosen in zip(problem.targets, machines, strict=True):
            norms.append(np.sqrt(means[chosen].mean(axis=0) @ mean_outputs[chosen].mean(axis=0)))
            both = [
                unit_centre(means[chosen], mean_outputs[chosen]),
                unit_centre(path[chosen], outputs[chosen]),
            ]
            centre, error = min(both, key=lambda pair: pair[1])
            centres.append(centre)
            errors.append(error)
            new = flights.outputs[chosen]
            mixed.append(mixing(target, new, training_errors(target, new), balls.squared_length))
        rhat, ess = np.array(mixed).T
        kick_centres, kick_errors = _kick_centres(problem, kicks, machines)
        counts = balls.counts()
        for name in ("bounces", "passes"):
            counts[name] = counts[name].reshape(len(machines), n_chains)
        return {
            "coef": [coef[chosen].reshape(-1, coef.shape[2]) for chosen in machines],
            "bayes_points": np.array(centres),
            "angle_errors": np.array(errors),
            "mean_norms": np.array(norms),
            "used": np.ones(problem.targets.shape, dtype=bool),
            "n_draws": coef.shape[1] * n_chains,
            "n_chains": n_chains,
            "finished": held is not None or bool(flights.n_draws),
            "path": path,
            "kicks": kicks,
            "last": coef[:, -1].copy(),
            "kick_centres": kick_centres,
            "kick_errors": kick_errors,
            "info": counts | {"rhat": rhat, "ess": ess, "n_draws": flights.n_draws},
        }

    @classmethod
    def held_out(cls, problem, folds, *, n_draws, entropy, budget, threads):  # noqa: ARG003
        """Outputs at all points of machines trained on the points of each fold."""
        found = {
            fold: cls._held_out_fold(problem, visited, [entropy, 1, fold], budget, threads)
            for fold, visited in folds.items()
        }
        return {fold: outputs for fold, outputs in found.items() if outputs is not None}

    @classmethod
    def _held_out_fold(cls, problem, visited, seed, budget, threads):
        part, n_flights = problem.part(visited), HELD_OUT_DRAWS * CHAINS
        try:
            state, _ = cls._draw(part, n_flights, 0.0, seed, None, budget, threads)
        except ValueError:  # no start without these points, or no time to find one
            return None
        coef = np.zeros(problem.targets.shape)
        coef[:, visited] = state["bayes_points"]
        return outputs_of(problem.rows, 0.0 * problem.ridge, coef)


class Gibbs(Billiards):
    """The kernel Gibbs sampler: the same posterior, in steps of any length."""

    name, title = "gibbs", "Gibbs sampler"
    kind = Walkers


class Propagation:
    """Expectation propagation: a Gaussian posterior in closed form, and draws of it."""

    name = "ep"

    @staticmethod
    def needed_bytes(n_points, itemsize, n_voting):
        """All rows, the Gram matrix, factor, inverse, two for work, and two a voting machine."""
        return n_points**2 * (itemsize + 8 * (5 + 2 * n_voting))

    @classmethod
    def draw(cls, problem, n_draws, *, tol, entropy, held, budget, threads):
        """Find the sites of all machines, from those held, and draw ``n_draws`` classifiers."""
        softness = problem.softness / problem.weight
        factor = factorise(problem.rows, softness, threads)
        gaussians = cls._gaussians(problem, tol, held, budget, factor)
        if not budget.interrupted:
            find = conflict_check(problem.space, problem.points, problem.names)
            for machine, (name, gaussian) in enumerate(zip(problem.names, gaussians, strict=True)):
                sure = not problem.softness and np.all(np.isinf(problem.odds[machine]))
                if sure and not gaussian.converged and not budget.spent():
                    find(machine, np.abs(gaussian.coef))
                if not gaussian.converged:  # bounded sites are in the diagnostics
                    warn_if_moving(gaussian, name)
        coef, norms = [], []
        for machine, gaussian in enumerate(gaussians):
            seed = np.random.SeedSequence(entropy, spawn_key=(2, machine))
            draws, outputs = gaussian.draws(n_draws, np.random.default_rng(seed))
            coef.append(draws)
            norms.append(np.sqrt(max(draws.mean(axis=0) @ outputs.mean(axis=0), 0.0)))
        each = {
            name: np.array([getattr(gaussian, name) for gaussian in gaussians])
            for name in ("sweeps", "converged", "bounded", "change", "log_evidence")
        }
        return {
            "coef": coef,
            "bayes_points": np.array([gaussian.bayes_point() for gaussian in gaussians]),
            "angle_errors": np.zeros(len(gaussians)),
            "mean_norms": np.array(norms),
            "used": np.ones(problem.targets.shape, dtype=bool),
            "n_draws": n_draws,
            "n_chains": 1,
            "finished": True,
            "sites": np.array([gaussian.sites for gaussian in gaussians]),
            "info": each,
            "gaussians": gaussians,
        }, factor

    @staticmethod
    def _gaussians(problem, tol, held, budget, factor=None):
        K, found = all_rows(problem.rows), []
        make = getattr(problem.rows, "site_blocks", lambda _: Block.make)(len(problem.odds))
        # Copies have softness of their own each: only the mean of theirs matters to the rest.
        # Without softness they are one point, whose label is the surer.
        copies = np.broadcast_to(problem.weight if problem.softness else 1.0, len(K))
        for machine, odds in enumerate(problem.odds):
            likelihood = Likelihood(
                problem.targets[machine].astype(np.float64), problem.ridge, odds / copies,
                problem.log_right[machine] / copies, copies,
            )  # fmt: skip
            fixed_point = propagate(
                K, likelihood, start=None if held is None else Sites(*held["sites"][machine]),
                tol=max(tol, LEAST_TOLERANCE), stop=budget.spent, make=make,
            )  # fmt: skip
            space = problem.space(machine)
            space.ridge = problem.ridge / copies
            found.append(GaussianPosterior(space, K, likelihood, fixed_point, None, factor))
            budget.show(machine + 1, len(problem.odds), "machines,")
        budget.close()
        return found

    @classmethod
    def held_out(cls, problem, folds, *, n_draws, entropy, budget, threads):  # noqa: ARG003
        """Outputs at all points of machines trained on the points of each fold."""
        found = {}
        for fold, visited in folds.items():
            gaussians = cls._gaussians(problem.part(visited), HELD_OUT_TOL, None, budget)
            coef = np.zeros(problem.targets.shape)
            coef[:, visited] = [gaussian.bayes_point() for gaussian in gaussians]
            found[fold] = outputs_of(problem.rows, 0.0 * problem.ridge, coef)
        return found


def _kick_centres(problem, kicks, machines):
    """Bayes points from the kicks, and their errors; zero and infinite where there were none."""
    outputs = outputs_of(problem.rows, problem.ridge, kicks)
    centres, errors = np.zeros(problem.targets.shape), np.full(len(machines), np.inf)
    for machine, chosen in enumerate(machines):
        if np.any(kicks[chosen]):
            centres[machine], errors[machine] = unit_centre(kicks[chosen], outputs[chosen])
    return centres, errors


METHODS = {method.name: method for method in (Perceptrons, Billiards, Gibbs, Propagation)}
