"""The paper's table, in small
===========================

The paper measures its two revealers by their *competitive ratio*: the share of a clairvoyant's gain that a rule
achieves without knowing the future. This page computes the ratio for a few problems and names the command that
reproduces the whole table.
"""

# %%
# One function makes the paper's synthetic problems. Each depends only on the seed and its number, so ``seed=1`` gives
# everybody the same ones.
import numpy as np
import opportune as op

worlds = op.synthetic_worlds(5, seed=1)

# %%
# Two rules at three budgets. ``scale="gap"`` divides gaps by the largest true one, as the paper does for this table.
budgets = [2, 8, 32]
policies = [rule(b, scale="gap") for b in budgets for rule in (op.pd1_ucb, op.pd2_ucb)]
data = op.simulate(worlds, policies, horizon=300, replicates=20, seed=1)

# %%
# The competitive ratio
# ---------------------
# Suppose the rewards are known and only the arrivals are not. The gap is the value of knowing the context at each step.
# A clairvoyant spends the budget on the largest gaps; the rules must decide step by step. PD2 also considers how stale
# the recommender's knowledge is, which is taken from the runs above.
from opportune.analysis.bounds import tolerance
from opportune.analysis.clairvoyant import auxiliary, clairvoyant

steps = np.arange(1, data.sizes["step"] + 1)
for budget in budgets:
    gained = dict.fromkeys(("PD1", "PD2", "clairvoyant"), 0.0)
    run = data.sel(policy=f"PD2 B={budget}")
    for i, world in enumerate(worlds):
        gaps = world.gaps[run.context.values[i]] / world.largest_gap
        behind = run.disagreement.values[i]
        allowed = tolerance(steps, budget, world.problem.least_distance)
        gained["PD1"] += (auxiliary(gaps, budget) * gaps).sum()
        gained["PD2"] += (auxiliary(gaps, budget, disagreement=behind, tolerance=allowed) * gaps).sum()
        gained["clairvoyant"] += (clairvoyant(gaps, budget) * gaps).sum()
    ratios = {rule: gained[rule] / gained["clairvoyant"] for rule in ("PD1", "PD2")}
    print(f"budget {budget:>2}: " + ", ".join(f"{rule} {ratio:.3f}" for rule, ratio in ratios.items()))

# %%
# Where regret comes from
# -----------------------
# In a study the rewards must be learned as well. :func:`opportune.decomposition` splits regret into the cost of not
# knowing the arrivals and the cost of not knowing the rewards; the competitive ratio is about the first.
parts = op.decomposition(data).isel(step=-1).mean(["world", "replicate"])
print(parts.to_dataframe().drop(columns="step", errors="ignore").round(1))

# %%
# Regret over time, with its 95% intervals:
figure = op.plot_regret(data)

# %%
# The full experiment has its own grid, intervals, and the paper's claims as checks. One command runs it and writes a
# report with tables, figures and data::
#
#     opportune reproduce table
#
# :doc:`/reproduce` shows the results.
