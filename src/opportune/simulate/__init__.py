"""Simulation at scale: `simulate` and the drivers behind it."""

from opportune.simulate.api import simulate

__all__ = ["simulate"]
