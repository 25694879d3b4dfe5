"""The smallest inference method there is: an example for CONTRIBUTING."""

import numpy as np

from bayespoint.inference.draws import Draws, Method


class HalfMeans(Method):
    """Each draw is the difference of the class means over a random half of the points."""

    name = title = "half_means"

    def infer(self, problem, plan, held):  # noqa: ARG002
        return self._draws(problem, plan, np.arange(len(problem.row)), 7)

    def held_out(self, problem, folds, plan):
        return {
            fold: problem.outputs(self._draws(problem, plan, kept, 7, fold).bayes_points)
            for fold, kept in folds.items()
        }

    def _draws(self, problem, plan, kept, *key):
        rng = np.random.default_rng(np.random.SeedSequence(plan.entropy, spawn_key=key))
        coef = np.zeros((len(problem.targets), plan.n_draws, len(problem.row)))
        for draw in range(plan.n_draws):
            half = rng.permutation(kept)[: -(-len(kept) // 2)]
            signs = problem.targets[:, half].astype(float)
            coef[:, draw, half] = signs / np.maximum(
                np.sum(signs[:, :, None] == signs[:, None], 2), 1
            )
        return Draws.from_coef(problem, list(coef))
