"""The billiards as published, for comparison with the exact one of `sample_billiard`.

Both fly straight to the wall with the smallest positive flight time, -<w, phi> / <v, phi>, and are
reflected there. That is not what biases them: a straight line projects to the great circle, and
chord length times midpoint is the integral of w along it. What does: random directions whose
*coefficients* are isotropic, directions drawn anew only after an escape (on a wall in JMLR, at the
present centre of mass in R&M), the arc before an escape, which is lost, and sums of unit vectors on
the sphere in place of sums of vectors.
"""

from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.checks import check_number, warn
from bayespoint._support.types import ArrayLike, Seed
from bayespoint.inference.billiard.starts import Start
from bayespoint.papers.runs import FlightSettings, StraightRun
from bayespoint.papers.straight import ArcSum, ChordSum, angle, chord
from bayespoint.space.posterior import Posterior
from bayespoint.space.version_space import VersionSpace


def sample_jmlr_billiard(
    space: VersionSpace, n_draws: int = 1000, *, tol: float = 1e-3, tau_max: float = 1e4,
    max_bounces: int = 100_000, directions: str = "coefficients",
    start: ArrayLike | Start | None = None, max_time: float | None = None,
    random_state: Seed = None, verbose: int = 0,
) -> Posterior:  # fmt: skip
    """Play billiards as in JMLR's algorithm 2: one ball, until its next chord would count little.

    This is for comparison; use `sample_billiard` instead. Draws are not uniform: after 3,000
    bounces the mean of 64 runs was 0.3 to 6.7 degrees off the centre of mass on four problems
    without symmetry (5.0 on sonar, 124 points), where the exact billiard was off by no more than
    chance. The directions cause most of this: with isotropic ones it was 1.4 degrees at most
    (``benchmarks/published.py --part bias``).

    Parameters
    ----------
    space : VersionSpace
    n_draws : int, default=1000
        Largest number of midpoints of chords to keep; the longer the run, the further apart they
        are.
    tol : float, default=1e-3
        The paper's TOL (there about 1e-4): stop when the weight of the next chord in the centre
        of mass, rho_2(p_min, Xi / (Xi + xi_max)), is not above this. It bounds one step of the
        running mean, not its error.
    tau_max : float, default=1e4
        Flight time after which a ball counts as escaped (the paper gives no number): it then leaves
        the wall in a random inward direction.
    max_bounces : int, default=100_000
        Number of bounces after which the run stops, with a warning.
    directions : {"coefficients", "isotropic"}, default="coefficients"
        Whether directions are drawn with an isotropic distribution of their coefficients, as
        published, or are isotropic themselves.
    start : array-like of shape (m,) or Start, optional
        Coefficients of a vector inside version space. Default: a kernel perceptron, as in the
        paper.
    max_time : float, optional
        Seconds after which the run stops, with a warning.
    random_state : int, RandomState or None
    verbose : int, default=0
        Whether to show progress on standard error.

    Returns
    -------
    Posterior
        Draws are midpoints of chords, weighted by their length. ``bayes_point()``, source
        "published", is the paper's; source "path" is the vector mean over the same path, whose
        ``bayes_point_error`` includes the scatter but not the bias. ``info`` has ``bounces``,
        ``escapes``, ``tol_reached``, ``walls`` (met, in order) and ``trajectories`` (bounces
        from one random direction to the next escape).

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, papers
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(3), [1, 1, 1])
    >>> post = papers.sample_jmlr_billiard(space, tol=0.01, random_state=0)
    >>> bool(np.all(space.margins(post.bayes_point()) > 0))
    True
    """
    check_number("tol", tol, above=0)
    settings = FlightSettings(tau_max, directions, start, max_time, random_state, verbose)
    run = StraightRun("jmlr billiard", space, n_draws, settings, ("max_bounces", max_bounces))
    published, last, reached = ChordSum(), None, False
    with run.budget.catching_interrupts():
        while not run.finished():
            wall, time = run.next_wall()
            if time >= tau_max:
                run.leave(inward=last)
                continue
            last = wall
            published.add(*run.bounce(wall, time, chord))
            reached = published.weight_of_next() <= tol
            if reached:
                break
    posterior = run.posterior(published.centre)
    posterior.info["tol_reached"] = bool(reached)
    if not reached:
        warn(
            f"the billiard stopped after {run.ball.bounces} bounces, before its rule with "
            f"tol={tol} did: raise max_bounces or max_time, or raise tol.",
            ConvergenceWarning,
        )
    return posterior


def sample_flipper(
    space: VersionSpace, n_draws: int = 1000, *, n_bounces: int = 10_000, bias: float = 0.0,
    tau_max: float = 1e6, directions: str = "coefficients", start: ArrayLike | Start | None = None,
    max_time: float | None = None, random_state: Seed = None, verbose: int = 0,
) -> Posterior:  # fmt: skip
    """Play R&M's flipper (algorithm 18.1): one ball that restarts at the centre after an escape.

    This is for comparison; use `sample_billiard` instead. Draws are not uniform: after 3,000
    bounces the mean of 64 runs was 0.5 to 12.4 degrees off the centre of mass on four problems
    without symmetry (8.7 on sonar, 124 points), and 0.3 to 5 degrees with isotropic directions.
    Where version space is wide, single runs end anywhere, because they start again at their own
    centre after each escape: on a cone of 50 walls at equal angles they were 70 degrees off
    (``benchmarks/published.py --part bias``).

    Parameters
    ----------
    space : VersionSpace
    n_draws : int, default=1000
        Largest number of midpoints of arcs to keep; the longer the run, the further apart they are.
    n_bounces : int, default=10_000
        Bounces, the paper's N_max.
    bias : float, default=0.0
        How much of each entry of K is due to a bias weight. Version spaces have only the bias
        of their kernel, so for the paper's machine give ``VersionSpace(K + 1, y)`` and
        ``bias=1.0``: the ball then moves along the axis of the bias, too, as published.
    tau_max : float, default=1e6
        Flight time after which a ball counts as escaped.
    directions, start, max_time, random_state, verbose
        As for `sample_jmlr_billiard`.

    Returns
    -------
    Posterior
        Draws are midpoints of arcs, weighted by their length. ``bayes_point()``, source
        "published", is their sum by the paper's rule (18.27); source "path" is the vector mean
        over the path.
        ``info`` as for `sample_jmlr_billiard`, without ``tol_reached``.

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, papers
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(3), [1, 1, 1])
    >>> post = papers.sample_flipper(space, n_bounces=200, random_state=0)
    >>> bool(np.all(space.margins(post.bayes_point()) > 0))
    True
    """
    settings = FlightSettings(tau_max, directions, start, max_time, random_state, verbose, bias)
    run = StraightRun("flipper", space, n_draws, settings, ("n_bounces", n_bounces))
    published = ArcSum()
    with run.budget.catching_interrupts():
        for wall, time in run.flips(published):
            published.add(*run.bounce(wall, time, angle))
    posterior = run.posterior(published.centre)
    run.warn_if_cut_short()
    return posterior
