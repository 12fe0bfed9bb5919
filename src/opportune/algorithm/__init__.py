"""The algorithm: step functions over flat arrays, with the equations of docs/paper.md beside the code.

Nothing here reads or writes files, allocates inside a step, or raises. The batch loop on the CPU, the CUDA kernel and
the live agent all call these functions; there is no other implementation.
"""
