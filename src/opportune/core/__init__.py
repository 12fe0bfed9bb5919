"""The algorithm: step functions over NumPy arrays, compiled by Numba, shared by every driver.

Nothing here reads or writes files, allocates inside a step, or raises. The batch loop on the CPU, the
CUDA kernel and the live agent all call these functions; there is no other implementation.
"""
