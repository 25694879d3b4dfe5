"""A billiard in explicit coordinates, step by step as on paper, and its wrong variants."""

import numpy as np

from helpers.version_spaces import N_CHAINS, coordinates, exact_draws

# Walls met in one flight: wrong variants can stay between two for ever.
MOST_EVENTS = 40


class PlainBall:
    """One billiard ball in explicit coordinates, step by step as on paper.

    Wrong variants for negative controls: ``bounce``, the factor of a reflection (2 is right);
    ``touch``, the margin up to which a wall counts as touched: without it (0.0) only the wall just
    met is passed over.
    """

    def __init__(self, phi, y, w, pass_rate=0.0, uniform=None, bounce=2.0, touch=1e-12):
        self.phi, self.y, self.w = phi, y, w
        self.length = np.linalg.norm(phi, axis=1)
        self.side = np.sign(phi @ w)
        self.pass_rate = np.broadcast_to(pass_rate, len(phi))
        self.uniform = uniform
        self.bounce, self.touch = bounce, touch
        self.kicks = np.zeros(len(phi))
        self.integral = np.zeros_like(w)
        self.met = 0
        self.last = -1

    def fly(self, direction, travel):
        """Fly on a great circle towards ``direction``, made tangent and unit."""
        v = direction - (direction @ self.w) * self.w
        v /= np.linalg.norm(v)
        self.last = -1
        for _ in range(MOST_EVENTS):
            wall, t = self.next_wall(v)
            if t >= travel:
                break
            travel -= t
            v = self.turn(v, t)
            self.met += 1
            self.last = wall
            right = self.side[wall] == self.y[wall]
            if not right or (self.pass_rate[wall] > 0 and self.uniform() < self.pass_rate[wall]):
                self.side[wall] *= -1
                continue
            f = self.bounce * (self.phi[wall] @ v) / self.length[wall] ** 2
            v = v - f * self.phi[wall]
            self.kicks[wall] -= f
        self.turn(v, travel)
        return self.w

    def next_wall(self, v):
        d = self.side * (self.phi @ self.w) / self.length
        u = self.side * (self.phi @ v) / self.length
        with np.errstate(divide="ignore"):
            t = np.arctan2(1.0, -u / np.where(d == 0, 1e-300, d))
        if self.touch:
            t[d <= self.touch] = np.where(u[d <= self.touch] < 0, 0.0, np.inf)
        elif self.last >= 0:
            t[self.last] = np.inf
        wall = int(np.argmin(t))
        return wall, t[wall]

    def turn(self, v, t):
        w = self.w
        self.integral = self.integral + w * np.sin(t) + v * (1 - np.cos(t))
        self.w = w * np.cos(t) + v * np.sin(t)
        return v * np.cos(t) - w * np.sin(t)


class Fed:
    """A generator that gives what it was fed."""

    def __init__(self, white):
        self.white = white

    def standard_normal(self, *, out):
        out[:] = self.white


def plain_billiard(problem, length, seed, travel=np.pi / 2, n_chains=N_CHAINS, **variant):
    """Outputs of plain balls that start from exact draws, of shape (chains, length, points)."""
    rng = np.random.default_rng(seed)
    phi = coordinates(problem.K)
    noise = np.broadcast_to(problem.noise, len(phi))
    starts = exact_draws(problem, n_chains, rng) @ phi
    outputs = np.empty((n_chains, length, len(phi)))
    for k, start in enumerate(starts):
        ball = PlainBall(phi, problem.y, start, noise / (1 - noise), rng.random, **variant)
        for draw in range(length):
            outputs[k, draw] = phi @ ball.fly(rng.standard_normal(phi.shape[1]), travel)
    return outputs
