"""Billiard balls in the memory of a GPU."""

import time

import numpy as np
import torch

from bayespoint.gpu.kernels import loops
from bayespoint.gpu.loops.billiard_torch import BOUNCES, CURSOR_SIZE, EVENTS, OVER, PASSES, RANDOM

# How often a ball that rounding led astray flies again.
MAX_RESTARTS = 10

# Numbers read and written by a block between two returns to Python, some 50 ms.
EVENT_WORK = 5e8

# A ball whose margin, recomputed, is this far on the wrong side (share of sqrt(k(x, x))) has left
# its cell through rounding errors: it flies again.
LOST = {torch.float32: 1e-6, torch.float64: 1e-7}

# The same for walls that may be passed, in multiples of that: nearer, only the side is set right.
FAR = 100


# Balls that a card flies at no more cost than a few, and the most and fewest of one machine.
BALLS = 100
FEWEST, MOST = 4, 32


def n_chains(n_machines):
    """Balls of each machine."""
    return max(FEWEST, min(MOST, BALLS // n_machines))


class DeviceBalls:
    """Positions and directions of all balls, as `billiard.balls.Balls`.

    A flight keeps outputs in the precision of the rows. At its end they are computed anew from the
    coefficients, in float64.

    Parameters
    ----------
    table : Table
        Its rows are `DeviceRows`; weights by numbers of errors are not for GPUs.
    start : ndarray of shape (n_balls, m)
    seed : SeedSequence
    """

    has_path = True
    part = 1.0  # of the travel asked that balls fly

    def __init__(self, table, start, seed):
        rows = table.rows
        self.table, self._rows, device = table, rows, rows.device
        self._kind = rows.store.dtype

        def put(array, dtype=torch.float64):
            return torch.from_numpy(np.ascontiguousarray(array)).to(device, dtype)

        rows.ensure(())
        stored = rows.store.diagonal().double().cpu().numpy()  # as the reflections see it
        self.squared_length = stored + table.ridge
        self._squared, self._ridge = put(self.squared_length), put(table.ridge)
        self._label = put(table.label, torch.int8)
        self._hard = put(table.pass_rate == 0, torch.bool)
        self._rate = put(table.pass_rate) if np.any(table.pass_rate) else None
        self._coef = put(np.array(start))  # of its own
        self._outputs = self._exact(self._coef)
        self._sides = self._sides_of(self._outputs)
        self._n, self._m = start.shape
        zeros = torch.zeros((self._n, self._m), dtype=torch.float64, device=device)
        self._kicks, self._ends = zeros, torch.zeros_like(zeros)
        self._cursors = torch.zeros((self._n, CURSOR_SIZE), dtype=torch.int64, device=device)
        children = seed.spawn(self._n + 1)
        states = [np.random.default_rng(child).integers(2**63) for child in children[1:]]
        self._cursors[:, RANDOM] = put(np.array(states), torch.int64)
        self._generator = torch.Generator(device)
        self._generator.manual_seed(int(np.random.default_rng(children[0]).integers(2**62)))
        self._fly = loops(device, "billiard").fly
        self.drift, self.restarts, self.seconds = 0.0, 0, 0.0

    def __len__(self):
        """Return the number of balls."""
        return self._n

    @property
    def P(self):  # noqa: N802
        """Outputs of the positions, as an array."""
        return _host(self._outputs)

    @property
    def kicks(self):
        """Sums of the changes of direction at walls since the step began."""
        return _host(self._kicks)

    def ends(self):
        """Coefficients of the first less the last direction of each flight, summed, by ball."""
        return _host(self._ends)

    def positions(self):
        """Coefficients of the positions between flights."""
        return _host(self._coef)

    def recorded_path(self):
        """No path is recorded."""
        return np.zeros((0, self._m))

    def forget(self):
        """Begin to count anew."""
        self._cursors[:, [BOUNCES, PASSES]] = 0
        self.drift, self.restarts, self.seconds = 0.0, 0, 0.0

    def counts(self):
        """Return bounces and passes of each ball, drift, restarts, seconds of flight."""
        cursors = self._cursors.cpu().numpy()
        return {
            "bounces": cursors[:, BOUNCES].copy(), "passes": cursors[:, PASSES].copy(),
            "drift": float(self.drift), "restarts": self.restarts, "flight_seconds": self.seconds,
        }  # fmt: skip

    def step(self, n_flights, thin, travel, budget, threads, kept=True):  # noqa: ARG002
        """Fly all balls ``n_flights`` flights (a multiple of ``thin``), or until time is up."""
        begun = time.perf_counter()
        self._kicks.zero_()
        self._ends.zero_()
        draws: list = []
        for flight in range(n_flights):
            if (flight and budget.spent()) or not self._flight(travel, budget):
                break
            if kept and (flight + 1) % thin == 0:
                draws.append((_host(self._coef), _host(self._outputs)))
        self.seconds += time.perf_counter() - begun
        if not draws:
            return None
        coef, outputs = zip(*draws, strict=True)
        return np.stack(coef, axis=1), np.stack(outputs, axis=1)

    def _flight(self, travel, budget):
        """Fly all balls once; False if time was up before all had arrived."""
        left = torch.arange(self._n, device=self._rows.device)
        for _ in range(MAX_RESTARTS):
            before = (
                self._coef[left].clone(),
                self._outputs[left].clone(),
                self._sides[left].clone(),
            )
            sums = self._kicks[left].clone(), self._ends[left].clone()
            arrived = self._fly_once(left, travel, budget)
            lost = self._arrive(left) if arrived else torch.ones_like(left, dtype=torch.bool)
            if not bool(lost.any()):
                return True
            again = left[lost]
            self._coef[again], self._outputs[again], self._sides[again] = (x[lost] for x in before)
            self._kicks[again], self._ends[again] = (x[lost] for x in sums)
            if not arrived:
                return False
            self.restarts += len(again)
            left = again
        raise ValueError(
            "the billiard leaves version space through rounding errors again and again: the Gram "
            "matrix is not positive semi-definite, or version space is too narrow. Set "
            "softness > 0, or pass float64 data."
        )

    def _fly_once(self, balls, travel, budget):
        """Fly some balls from where they are; whether all arrived."""
        coef_p, outputs_p = self._coef[balls], self._outputs[balls]
        coef_q, outputs_q = self._directions(coef_p, outputs_p)
        self._ends[balls] += coef_q
        n = len(balls)
        state = {
            "side": self._sides[balls], "P": outputs_p.to(self._kind),
            "Q": outputs_q.to(self._kind), "coef_p": coef_p, "coef_q": coef_q,
            "kicks": torch.zeros_like(coef_p),
            "angle": torch.zeros(n, dtype=torch.float64, device=balls.device),
            "cursors": self._cursors[balls],
        }  # fmt: skip
        state["cursors"][:, [EVENTS, OVER]] = 0
        travels = torch.full((n,), travel, dtype=torch.float64, device=balls.device)
        if self.table.factor.rank == 2:  # on a circle flights of one length come back
            travels *= 2 * torch.rand(n, generator=self._generator, device=balls.device)
        flying = torch.arange(n, device=balls.device)
        rate = None if self._rate is None else self._rate[balls]
        max_events = max(1, int(EVENT_WORK / (4 * self._m + 500)))
        while len(flying):
            self._fly(
                flying, self._rows.store, self._rows.slots, self._squared, self._ridge,
                self._label[balls], rate, travels, max_events, **state,
            )  # fmt: skip
            flying = torch.nonzero(state["cursors"][:, OVER] == 0).ravel()
            if len(flying) and budget.spent():
                self._cursors[balls] = state["cursors"]
                return False
        cos, sin = torch.cos(travels)[:, None], torch.sin(travels)[:, None]
        self._coef[balls] = state["coef_p"] * cos + state["coef_q"] * sin
        self._ends[balls] += state["coef_p"] * sin - state["coef_q"] * cos
        self._kicks[balls] += state["kicks"]
        self._sides[balls], self._cursors[balls] = state["side"], state["cursors"]
        self._landed = state["P"].double() * cos + state["Q"].double() * sin
        return True

    def _directions(self, coef_p, outputs_p):
        """Isotropic unit vectors, tangent at the positions: coefficients and outputs."""
        white = torch.randn(
            coef_p.shape, dtype=self._kind, device=coef_p.device, generator=self._generator
        )
        coef = self.table.factor.solve(white).double()
        outputs = self._exact(coef)
        along = (coef_p * outputs).sum(dim=1, keepdim=True)
        squared = (coef * outputs).sum(dim=1, keepdim=True) - along**2
        scale = 1 / torch.sqrt(squared)
        direction, outputs = coef - along * coef_p, outputs - along * outputs_p
        return (scale * direction).contiguous(), (scale * outputs).contiguous()

    def _arrive(self, balls):
        """Compute positions anew from their coefficients; which balls are lost."""
        coef = self._coef[balls]
        exact = self._exact(coef)
        norm = torch.sqrt((coef * exact).sum(dim=1, keepdim=True))
        self._coef[balls], exact = coef / norm, exact / norm
        self._outputs[balls] = exact
        off = (exact - self._landed).abs() / torch.sqrt(self._squared)
        self.drift = max(self.drift, float(off.max()))
        height = self._sides[balls] * exact
        hard, least = self._hard[balls], LOST[self._kind]
        lost = (height < -least) & hard | (height < -FAR * least) | torch.isnan(height)
        # What lies on the other side of a soft wall by a rounding error is there now.
        self._sides[balls] = torch.where(hard, self._sides[balls], self._sides_of(exact, balls))
        return lost.any(dim=1)

    def _exact(self, coef):
        return self._rows.products(coef) + coef * self._ridge

    def _sides_of(self, outputs, balls=slice(None)):
        """Side of each wall, as 1 / sqrt(k(x, x)) with its sign; hard walls have only one."""
        label = self._label[balls].double()
        sign = torch.where((outputs == 0) | self._hard[balls], label, torch.sign(outputs))
        return (sign / torch.sqrt(self._squared)).to(self._kind)


def _host(tensor):
    """Return an array of its own, in NumPy's memory: it comes in large pages."""
    found = np.empty(tensor.shape, dtype=str(tensor.dtype).removeprefix("torch."))
    torch.from_numpy(found).copy_(tensor)
    return found
