"""How the algorithm is compiled: state by name, SIMD, hooks, threads, and where compiled code is kept."""
