"""Many runs: from hundreds to a million
=====================================

A run is a pure function of the world, the policy, the seed and its number. It does not matter where it runs: on one
core, on all of them, on a GPU or on a cluster. This page runs a small sweep and shows what changes for a large one.
"""

# sphinx_gallery_thumbnail_path = "images/bench.png"
# %%
# Without a trace only totals are kept, so memory does not grow with the horizon.
import time

import opportune as op

worlds = op.synthetic_worlds(2, seed=1)
began = time.perf_counter()
data = op.simulate(worlds, [op.pace_ucb(10), op.pd2_ucb(10)], horizon=300, replicates=200, seed=1, trace=False)
seconds = time.perf_counter() - began
print(f"{data.sizes['policy'] * data.sizes['world'] * data.sizes['replicate']} runs")
print(op.regret(data).mean(["world", "replicate"]).to_series().round(1))

# %%
# A million runs need one more argument. With an NVIDIA card and ``pip install '.[gpu]'`` in a clone::
#
#     data = op.simulate(worlds, policies, horizon=300, replicates=250_000, seed=1, trace=False, device="cuda")
#
# The GPU makes the decisions of the CPU, except for ties. With joblib, ``with joblib.parallel_config("dask"):`` spreads
# the runs over the workers of a cluster. :doc:`/scale` has the details, :doc:`/performance` the measured rates.
#
# If worlds differ, intervals shrink with the number of *worlds*, not of replicates. ``op.mean_interval`` accounts for
# that:
print(op.mean_interval(op.regret(data), ["world", "replicate"]))
