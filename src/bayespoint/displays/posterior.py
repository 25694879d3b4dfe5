"""Pictures of a posterior: on the sphere where it has three dimensions, else chain by chain."""

from typing import Any, Self

import numpy as np

from bayespoint._support.checks import check_number
from bayespoint._support.types import Array, ArrayLike
from bayespoint.displays.sphere import Sphere, draw_sphere
from bayespoint.displays.style import pyplot
from bayespoint.displays.trace import draw_trace, inches, lanes, summaries
from bayespoint.space.posterior import Posterior


class PosteriorDisplay:
    """Picture of a posterior, with the conventions of scikit-learn's displays.

    Make one with :meth:`from_posterior`. There are two kinds:

    "sphere"
        For points that span three dimensions: the half of the unit sphere around the Bayes point,
        in a projection that preserves areas, so that uniform draws look uniform. The wall of each
        training point is a great circle. Version space is shaded; with label noise, cells are
        darker the more probable they are.
    "trace"
        For each chain, a trace of a summary of the draws with its moving mean, and a histogram
        of its ranks among the draws of all chains. If chains agree and draws are independent,
        all bars lie in the grey band in 95 of 100 pictures; correlated draws are thinned first, to
        at least 100 per chain. A single chain is compared with itself, half by half.

    Parameters
    ----------
    posterior : Posterior
        With outputs at its training points, as :func:`inference.sample_billiard` gives.
    kind : {"auto", "sphere", "trace"}, default="auto"
        "auto" means "sphere" if the points span three dimensions and no summary is given.
    summary : {"errors", "margin"} or int or list of these, default=None
        What "trace" shows: the number of training errors, the smallest margin, or the output at
        the training point of that number. By default the errors if there is label noise, otherwise
        the output with the lowest effective sample size.

    Attributes
    ----------
    ax_ : matplotlib Axes, or ndarray of Axes of shape (n_summaries, 2)
        The axes.
    figure_ : matplotlib Figure
        The figure.
    region_ : matplotlib Polygon or AxesImage
        Sphere: version space, or with label noise the posterior density.
    bounding_walls_, walls_ : matplotlib LineCollection
        Sphere: the walls that bound version space, and the others.
    path_ : matplotlib Line2D or None
        Sphere: the path of the first ball, where one was recorded (``n_path`` of the sampler).
    draws_ : matplotlib Line2D or None
        Sphere: the draws.
    bayes_points_ : dict
        Sphere: for "kicks" and "draws" the mark of the Bayes point, a Line2D.
    globe_ : matplotlib Axes or None
        Sphere: the inset with all of the half sphere.
    lines_, bars_ : list
        Trace: for each summary a list with one Line2D, or one BarContainer, per chain.

    Examples
    --------
    Ten points in three dimensions, labelled by the sign of their first coordinate.

    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> from bayespoint.displays import PosteriorDisplay
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(10, 3))
    >>> space = VersionSpace(X @ X.T, np.sign(X[:, 0]))
    >>> post = inference.sample_billiard(space, n_path=30, random_state=0)
    >>> PosteriorDisplay.from_posterior(post).ax_.get_title()
    'Version space: 4 of 10 walls bound it'
    >>> display = PosteriorDisplay.from_posterior(post, summary=["margin", 0])
    >>> [ax.get_ylabel() for ax in display.ax_[:, 0]]
    ['Smallest margin', 'Output at point 0']
    """

    def __init__(self, *, posterior: Posterior, kind: str = "auto", summary: Any = None) -> None:
        if kind not in ("auto", "sphere", "trace"):
            raise ValueError(f"kind must be 'auto', 'sphere' or 'trace'; got {kind!r}.")
        if posterior.outputs is None:
            raise ValueError(
                "this posterior holds no outputs at its training points, which the picture shows; "
                "draw it with inference.sample_billiard."
            )
        if kind == "auto":
            on_sphere = posterior.rank == 3 and posterior.space is not None
            kind = "sphere" if on_sphere and summary is None else "trace"
        if kind == "sphere":
            _check_sphere(posterior, summary)
        self.posterior = posterior
        self.kind = kind
        self.summary = summary

    def plot(
        self, ax: Any = None, *, n_path: int = 30, n_dots: int = 1000, legend: bool = True
    ) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, or array-like of Axes, default=None
            Where to draw: for "trace" two axes for each summary. By default a new figure.
        n_path : int, default=30
            Sphere: largest number of positions along the path of the ball.
        n_dots : int, default=1000
            Sphere: largest number of draws to show.
        legend : bool, default=True
            Sphere: whether there is a legend, to the right of the axes.

        Returns
        -------
        PosteriorDisplay
            With the picture drawn.
        """
        check_number("n_path", n_path, least=0)
        check_number("n_dots", n_dots, least=0)
        if self.kind == "trace":
            return self._plot_trace(ax)
        if ax is None:
            room = {"left": 0.01, "right": 0.66, "bottom": 0.02, "top": 0.93}
            figure = pyplot("PosteriorDisplay").figure(figsize=(9.2, 6.2))
            ax = figure.subplots(gridspec_kw=room if legend else None)
        elif np.size(ax) != 1:
            raise ValueError(f"kind='sphere' draws on one axes; got {np.size(ax)} as ax.")
        (ax,) = np.ravel(ax)
        self._sphere = Sphere(self.posterior)
        artists = draw_sphere(
            self._sphere, ax, n_path=int(n_path), n_dots=int(n_dots), legend=legend
        )
        self.region_, self.bounding_walls_, self.walls_ = artists.surface
        self.path_, self.draws_ = artists.path, artists.draws
        self.bayes_points_, self.globe_ = artists.bayes_points, artists.globe
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_trace(self, ax: Any) -> Self:
        shown = summaries(self.posterior, self.summary)
        if ax is None:
            height = inches(len(lanes(shown[0].values)[0]))
            figure = pyplot("PosteriorDisplay").figure(
                figsize=(12, height * len(shown)), layout="constrained"
            )
            ax = figure.subplots(len(shown), 2)
        elif np.size(ax) != 2 * len(shown):
            raise ValueError(
                f"kind='trace' draws on two axes for each summary, here {2 * len(shown)}; "
                f"got {np.size(ax)} as ax."
            )
        self.ax_ = np.reshape(ax, (len(shown), 2))
        self.figure_ = self.ax_[0, 0].figure
        pairs = [draw_trace(axes, *one) for axes, one in zip(self.ax_, shown, strict=True)]
        self.lines_, self.bars_ = map(list, zip(*pairs, strict=True))
        return self

    def project(self, outputs: ArrayLike) -> Array:
        """Positions of further classifiers in the picture of the sphere.

        Parameters
        ----------
        outputs : array-like of shape (n, m)
            Outputs at the training points; ``space.outputs(coef)`` gives them.

        Returns
        -------
        ndarray of shape (n, 2)
            NaN for classifiers on the back half of the sphere.
        """
        if not hasattr(self, "_sphere"):
            raise ValueError("there is no picture of the sphere to project on; plot one first.")
        return self._sphere.project(self.posterior.coordinates(outputs))

    @classmethod
    def from_posterior(
        cls, post: Posterior, *, kind: str = "auto", summary: Any = None, ax: Any = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw a posterior.

        Parameters
        ----------
        post : Posterior
            With outputs at its training points, as :func:`inference.sample_billiard` gives.
        kind, summary
            As for the class.
        ax, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        PosteriorDisplay
            With the picture drawn.
        """
        if not isinstance(post, Posterior):
            raise ValueError(
                f"post must be a Posterior, from bayespoint.inference or from posterior() of a "
                f"classifier; got {type(post).__name__}."
            )
        return cls(posterior=post, kind=kind, summary=summary).plot(ax, **kwargs)


def _check_sphere(post: Posterior, summary: Any) -> None:
    rank = post.rank
    if rank is None or post.space is None:
        raise ValueError(
            "kind='sphere' needs the version space and the factor of its Gram matrix; draw with "
            "inference.sample_billiard, or use kind='trace'."
        )
    if rank != 3:
        raise ValueError(
            f"kind='sphere' needs training points that span 3 dimensions; these span {rank}. "
            f"Use kind='trace'."
        )
    if summary is not None:
        raise ValueError(f"summary is for kind='trace'; got {summary!r} with kind='sphere'.")
