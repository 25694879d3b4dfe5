"""The registry of inference methods: one line for each value of ``inference=``."""

from bayespoint.inference.billiard.method import Billiards, Gibbs
from bayespoint.inference.draws import Method
from bayespoint.inference.ep.method import Propagation
from bayespoint.inference.perceptron.method import Perceptrons

_ALL: tuple[Method, ...] = (Perceptrons(), Billiards(), Gibbs(), Propagation())

METHODS = {method.name: method for method in _ALL}
