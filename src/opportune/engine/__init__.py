"""How the algorithm is compiled: named state, SIMD, hooks, threads, and the cache of compiled code."""
