"""Simulation at scale: `simulate` and the drivers behind it."""

from opportune.simulation.run import simulate

__all__ = ["simulate"]
