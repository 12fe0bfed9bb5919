"""SIMD: loops over long rows, `width()` numbers at a time.

What happens to one number stands in engine.scalars: that is what a GPU's thread does. On the CPU `load` takes as
many neighbours as a vector register holds, and the arithmetic is on all of them; rows are padded to whole vectors.
Left to find this out by itself, the compiler would have to suspect that any number written is one still to be read,
since any two addresses may be those of one array.
"""

from opportune.engine.scalars import divide, fma, larger, largest, load, plus, root, spread, store, times, width
from opportune.engine.versions import SIMULATED

if not SIMULATED:
    from opportune.engine import vectors  # noqa: F401  (tells the CPU's compiler what these are to it)

__all__ = ["divide", "fma", "larger", "largest", "load", "plus", "root", "spread", "store", "times", "width"]
