"""Expectation propagation: sites, sweeps, and the Gaussian posterior they give."""
