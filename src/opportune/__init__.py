"""Opportune decides when a limited number of costly nudges is worth spending, and what to recommend in between.

    import opportune as op

    world = op.synthetic_worlds(1, seed=1)[0]
    data = op.simulate(world, [op.pace_ucb(10), op.pd2_ucb(10)], horizon=300, replicates=50, seed=1)
    op.plot_regret(data)

The public names are listed in `__init__.pyi` and loaded when first used, so that importing the package is quick.
"""

import lazy_loader

from opportune._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
