"""SIMD: loops over long rows, `width()` numbers at a time.

engine.scalars defines the operations on one number, which a GPU's thread executes. On the CPU `load` takes as many
neighbours as fit into a vector register, and the arithmetic applies to all of them; rows are padded to whole vectors.
The compiler could not vectorise these loops by itself: it would have to assume that any number written may be one
still to be read, since any two addresses may belong to the same array.
"""

from opportune.engine.scalars import divide, fma, larger, largest, load, plus, root, spread, store, times, width
from opportune.engine.versions import SIMULATED

if not SIMULATED:
    from opportune.engine import vectors  # noqa: F401  (defines these operations for the CPU's compiler)

__all__ = ["divide", "fma", "larger", "largest", "load", "plus", "root", "spread", "store", "times", "width"]
