"""Runs of permuted kernel perceptrons in the memory of a GPU."""

import numpy as np
import torch

from bayespoint._loops.perceptron import CONVERGED, EXHAUSTED, PAUSED
from bayespoint._support import devices
from bayespoint.gpu.kernels import loops
from bayespoint.gpu.loops.perceptron_torch import (
    AHEAD,
    CURSOR_SIZE,
    MISTAKES,
    PLACE,
    VISITS,
    WANTED,
)
from bayespoint.space.left_out import Before

# Additions between two returns to Python, some 50 ms of a block: Ctrl-C and max_time act at once.
UPDATE_WORK = 2e8

# Runs in flight together: several for each multiprocessor of a large card.
RUNS_IN_FLIGHT = 1000

# Outputs that are computed anew together, and the memory that each takes meanwhile.
VERIFIED_NUMBERS = 60_000_000
VERIFIED_BYTES = 64


# Outputs that rounding may have moved further, as a share of k(x, x), are computed anew, and where
# that is more than this share of them, all are.
SURE = 0.1
FEW = 0.2

# State of a run that has ended, before its outputs were computed anew.
UNVERIFIED = -4


class _BeforeOfOrders:
    """As the list of `Wave.before`; the last of the orders that count has the sum of them all."""

    def __init__(self, wave, outputs, left_out):
        self._wave, self._outputs, self._left_out = wave, outputs, left_out
        self._counting = None  # numbers of orders

    def __getitem__(self, order):
        """Return `Before`, or None where another order has it."""
        if self._counting is None:
            ended = self._wave.ended()
            self._counting = ended if order in ended else np.array([order])  # cut short
        return self._sum(self._counting) if order == self._counting[-1] else None

    def _sum(self, orders):
        n_machines, left_out = len(self._wave.targets), self._left_out[orders]
        away = torch.from_numpy(left_out).to(self._outputs.device)
        sums = torch.zeros((2, n_machines, left_out.shape[1]), device=away.device).double()
        for order, left in zip(orders, away, strict=True):
            outputs = self._outputs[order * n_machines : (order + 1) * n_machines].double()
            sums[1] += outputs * left
            sums[0] += outputs * ~left
        n_unseen = left_out.sum(axis=0)
        seen, unseen = sums.cpu().numpy()
        return Before(seen, unseen, len(orders) - n_unseen, n_unseen)


class DeviceWave:
    """The runs in flight, as `perceptron.wave.Wave`.

    Outputs have the precision of the rows. Once no run goes on, they are computed anew from the
    counts, in float64, and runs that rounding had let stop too early go on from there: what is
    left has no mistake by the measure that the CPU uses.
    """

    def __init__(self, rows, targets, ridge, slack, orders):
        self.rows, self.targets = rows, targets
        device, n_runs, n_points = rows.device, len(orders) * len(targets), targets.shape[1]

        def put(array, dtype):
            return torch.from_numpy(np.ascontiguousarray(array)).to(device, dtype)

        if rows.whole:
            rows.ensure(())
        self._set_orders(orders)
        self._targets = put(targets, torch.int8)
        self._ridge, self._slack = put(ridge, torch.float64), put(slack, torch.float64)
        # Where all are alike, the loops need not read them.
        self._same_slack = float(slack[0]) if np.ptp(slack) == 0 else None
        kind = rows.store.dtype
        self._read_slack = self._slack.to(kind)
        self._outputs = torch.zeros((n_runs, n_points), dtype=kind, device=device)
        self._counts = torch.zeros((n_runs, n_points), dtype=torch.int32, device=device)
        self._cursors = torch.zeros((n_runs, CURSOR_SIZE), dtype=torch.int64, device=device)
        self._cursors[:, WANTED] = self._orders[:, :1].expand(-1, len(targets)).reshape(-1)
        tools = loops(device, "perceptron")
        self._advance, self._outputs_at = tools.advance, tools.outputs_at
        length = torch.sqrt(put(rows.diagonal + ridge, torch.float64))
        self._reach = length * length.max()
        self._verified = np.zeros(n_runs, dtype=bool)
        self._violated = np.full(n_runs, -1)
        self._squared = np.zeros(n_runs)
        self._pairs: list | None = None
        self._read()

    def _set_orders(self, orders):
        device = self.rows.device
        self.orders = np.array(orders, dtype=np.int32)
        self._orders = torch.from_numpy(self.orders).to(device)
        shape = len(orders), self.targets.shape[1]
        self._ranks = torch.full(shape, -1, dtype=torch.int32, device=device)
        places = torch.arange(self.orders.shape[1], dtype=torch.int32, device=device)
        self._ranks.scatter_(1, self._orders.long(), places.expand(len(orders), -1))

    def __len__(self):
        """Return the number of runs."""
        return len(self._outputs)

    def visit(self, orders):
        """Let all runs go on with these orders, from the classifiers that they have."""
        self._set_orders(orders)
        cursors = self._cursors
        ended = cursors[:, WANTED] < 0
        # From the end of the order the first mistake in it is the next one.
        cursors[:, PLACE] = self.orders.shape[1] - 1
        cursors[:, VISITS] = 0
        cursors[ended, WANTED] = CONVERGED
        going = torch.nonzero(~ended)[:, 0]
        ranks = self._ranks[going // len(self.targets)].long()
        cursors[going, AHEAD] = 1 + ranks.gather(1, cursors[going, WANTED][:, None])[:, 0]
        self._verified[:], self._violated[:] = False, -1
        self._read()
        self._verify(np.flatnonzero(self._wanted < 0))

    def before(self, left_out):
        """Outputs of the unit classifiers of all orders, which leave some points out.

        Asked for later, once it is known which orders have ended: those of all of these come with
        the last, so that few numbers leave the device.
        """
        n_machines = len(self.targets)
        self.violated(np.arange(len(self)))  # verified, so that lengths are known
        length = torch.from_numpy(np.sqrt(self._squared)).to(self.rows.device)
        held = torch.empty(self._outputs.shape, dtype=torch.float32, device=self.rows.device)
        for start in range(0, len(self), n_machines):
            runs = slice(start, start + n_machines)
            softened = self._ridge * self._targets * self._counts[runs]
            held[runs] = ((self._outputs[runs].double() - softened) / length[runs, None]).float()
        return _BeforeOfOrders(self, held, left_out)

    def ended(self):
        """Numbers of the orders whose runs have all ended, and are verified."""
        ended = np.isin(self.state, (CONVERGED, EXHAUSTED)).reshape(-1, len(self.targets))
        return np.flatnonzero(np.all(ended, axis=1))

    def advance(self, active, max_visits, threads):  # noqa: ARG002
        """Advance some of the runs for some 50 ms, or until they want rows."""
        going = np.asarray(active)[self._wanted[active] >= 0]
        max_updates = max(1, int(UPDATE_WORK / self._outputs.shape[1]))
        if len(going):
            self._advance(
                torch.from_numpy(going.astype(np.int64)).to(self.rows.device), self._orders,
                self._ranks, len(self.targets), self._targets, self.rows.store, self.rows.slots,
                self._ridge, self._read_slack, self._same_slack, self._outputs, self._counts,
                self._cursors, max_updates, max_visits,
            )  # fmt: skip
        self._read()
        if np.all(self._wanted < 0):
            self._verify(np.flatnonzero(~self._verified))

    def settle(self):
        """Verify the runs that have ended while others were cut short."""
        ended = np.flatnonzero((self._wanted < 0) & ~self._verified)
        if len(ended):
            self._verify(ended)

    def _read(self):
        """Bring what the outer loop looks at to the host."""
        cursors = self._cursors.cpu().numpy()
        self.mistakes, self._wanted = cursors[:, MISTAKES], cursors[:, WANTED]

    @property
    def state(self):
        """As of `Wave`; UNVERIFIED for runs that have ended, until all have."""
        present = self.rows.slot_of_row[np.maximum(self._wanted, 0)] >= 0
        state = np.where((self._wanted >= 0) & present, PAUSED, self._wanted)
        return np.where((self._wanted < 0) & ~self._verified, UNVERIFIED, state)

    def _verify(self, runs):
        """Compute outputs anew; runs that have mistakes by these go on."""
        self._pairs = None
        room = int(devices.free_bytes(self.rows.device) / VERIFIED_BYTES)
        step = max(1, min(VERIFIED_NUMBERS, room) // self._outputs.shape[1])
        for start in range(0, len(runs), step):
            part = torch.from_numpy(runs[start : start + step]).to(self.rows.device)
            target = self._targets[part % len(self.targets)]
            signed = (self._counts[part] * target).double()
            ranks = self._ranks[part // len(self.targets)].long()
            outputs = self._exact(part, signed, target, ranks)
            right = target * outputs
            wrong = ~(right > self._slack) & (ranks >= 0)
            self._outputs[part] = outputs.to(self._outputs.dtype)
            numbers = torch.stack([
                (signed * outputs).sum(dim=1),
                ((right <= 0) & (ranks >= 0)).sum(dim=1).double(),
                wrong.sum(dim=1).double(),
            ]).cpu().numpy()  # fmt: skip
            here = runs[start : start + step]
            self._squared[here], self._violated[here] = numbers[0], numbers[1].astype(np.int64)
            # A run is given up when it was before; else it must be without a mistake.
            again = (numbers[2] > 0) & (self._wanted[here] == CONVERGED)
            self._verified[here] = ~again
            if np.any(again):
                self._go_on(part[torch.from_numpy(again).to(part.device)], wrong, ranks, again)
        self._read()

    def _exact(self, runs, signed, target, ranks):
        """Outputs of some runs in float64, exact wherever that matters.

        The M additions to an output each rounded it by eps/2 at most of what it was, and that was
        at most sqrt(M) max |phi| |phi(x)|, the length of M points at right angles, as every one was
        added where it was on the wrong side (up to rounding itself, which `SURE` limits: a factor
        of 1.2 in the squared length, and the bound has one of 2 to spare). So whatever is further
        from zero than eps M sqrt(M) max |phi| |phi(x)| is on the right side. Points that a run
        uses, where softness was added, too, are always computed.
        """
        rows, kind = self.rows, self._outputs.dtype
        outputs = self._outputs[runs].double()
        mistakes = self._cursors[runs, MISTAKES].double()
        share = torch.finfo(kind).eps * (mistakes + 2) * torch.sqrt(mistakes)
        near = target * outputs <= self._slack + share[:, None] * self._reach
        near = (near & (ranks >= 0)) | (signed != 0)
        few = float(share.max()) < SURE and int(near.sum()) < FEW * near.numel()
        if not (rows.whole and few):
            return rows.products(signed) + signed * self._ridge
        at, used = torch.nonzero(near), torch.nonzero(signed)
        ends = [torch.bincount(x[:, 0], minlength=len(runs)).cumsum(0) for x in (at, used)]
        coef, points = signed[used[:, 0], used[:, 1]], at[:, 1].contiguous()
        found = self._outputs_at(
            points, ends[0], used[:, 1].contiguous(), ends[1], coef, rows.store, rows.slots
        )
        outputs[at[:, 0], points] = found + signed[at[:, 0], points] * self._ridge[points]
        return outputs

    def _go_on(self, runs, wrong, ranks, again):
        chosen = torch.from_numpy(again).to(runs.device)
        n_visited = self.orders.shape[1]
        place = self._cursors[runs, PLACE]
        ahead = ranks[chosen] - place[:, None]
        ahead = torch.where(ahead <= 0, ahead + n_visited, ahead)
        ahead = torch.where(wrong[chosen], ahead, n_visited).min(dim=1).values
        order = self._orders[runs // len(self.targets)]
        at = ((place + ahead) % n_visited)[:, None]
        self._cursors[runs, AHEAD] = ahead
        self._violated[runs.cpu().numpy()] = -1  # until they are verified again
        self._cursors[runs, WANTED] = order.gather(1, at)[:, 0].long()

    def fetch(self, wanted):
        """Have these rows computed."""
        self.rows.ensure(wanted)

    def likely(self, stalled, n_each):  # noqa: ARG002
        """Rows are computed in blocks wide enough: no guesses."""
        return np.full((len(stalled), 1), -1)

    def counts(self, run):
        """Return how often each point was added to the classifier of a run."""
        return self._counts[run].cpu().numpy()

    def violated(self, runs):
        """Numbers of visited points on the wrong side of the classifiers of some runs."""
        runs = np.asarray(runs)
        if np.any(self._violated[runs] < 0):  # cut short
            self._verify(runs[self._violated[runs] < 0])
        return self._violated[runs]

    def classifiers(self, runs):
        """Points used by some runs and how often, one pair a run; no outputs; squared lengths."""
        self.violated(runs)
        if self._pairs is None:  # few transfers are fast ones
            run, used = torch.nonzero(self._counts, as_tuple=True)
            counts = self._counts[run, used].cpu().numpy()
            ends = torch.bincount(run, minlength=len(self)).cumsum(0).cpu().numpy()[:-1]
            parts = np.split(used.cpu().numpy(), ends), np.split(counts, ends)
            self._pairs = list(zip(*parts, strict=True))
        return [self._pairs[run] for run in runs], None, self._squared[list(runs)]
