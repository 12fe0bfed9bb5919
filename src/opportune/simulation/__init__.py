"""Simulation at scale: `simulate` and the drivers behind it."""

from opportune.simulation.api import simulate

__all__ = ["simulate"]
