"""Inference from the record of a finished study, with intervals that hold for few participants.

Each estimator takes a pandas DataFrame with one row per decision point and returns `Estimates`. docs/analysis.md says
which question each of them answers, and under which assumptions.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
