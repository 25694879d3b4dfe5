"""Balls and Gibbs steps on great circles, and where they start."""
