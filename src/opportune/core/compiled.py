"""How the step functions are compiled."""

from numba import njit

# A step function: compiled on first use and kept on disk; called from other compiled functions only, so that no
# Python wrapper is built for it, which would take longer to compile than the function.
step_function = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)

# The same, callable from Python: drivers' ends, which Numba's CUDA simulator runs as Python.
driver_function = njit(cache=True)

# One that stands in every step's way: put into its caller, which saves handing over its arguments.
inner_function = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)
