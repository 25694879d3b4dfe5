"""The onion, or soft billiard (R&M 18.5.3): classifiers by the training errors they make.

Walls cut the sphere into cells. Those with n_minus wrong labels -1 and n_plus wrong labels +1 make
up a shell, and the centre of mass of each shell is a classifier: a table of them from one run.

`sample_onion` is unbiased: a ball passes a wall with probability min(1, g(ahead) / g(here)), where
g depends on (n_minus, n_plus) alone. The flux through each wall then balances for the density g, so
that draws are uniform within each shell. g is learnt first (Wang and Landau), so that all shells
are visited about equally often, and then kept: visits / g are the volumes.

`published_onion` follows the paper: a flipper inside version space whose straight flights are
continued beyond the first wall. A point outside then counts by the solid angle of version space
that is seen from it, so that its centres are not those of mass.

Without point i, a classifier that makes (n_minus, n_plus) errors is one that makes them with point
i on its right side, or one more with point i on its wrong side. So the draws of one run, with their
weights 1 / g, give the leave-one-out errors of every shell and of every mixture of them.
"""

from bayespoint.inference.onion.exact import sample_onion, stratify
from bayespoint.inference.onion.table import Onion

__all__ = ["Onion", "sample_onion", "stratify"]
