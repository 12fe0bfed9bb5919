"""Reproduce the paper's table
===========================

The paper measures its two revealers by their *competitive ratio*: the share of a clairvoyant's gain that a rule keeps
although it does not know what is coming. This page computes the table's experiment in a small form and then names the
command that runs it in full.
"""

# %%
# The paper's synthetic problems are made by one function. Each is drawn from its own number, so everybody who writes
# ``seed=1`` gets the same ones.
import opportune as op

worlds = op.synthetic_worlds(5, seed=1)

# %%
# Two rules at four budgets. ``scale="gap"`` divides gaps by the largest true one, as the paper does for this table.
budgets = [2, 8, 32]
policies = [rule(b, scale="gap") for b in budgets for rule in (op.pd1_ucb, op.pd2_ucb)]
data = op.simulate(worlds, policies, horizon=300, replicates=20, seed=1)

# %%
# :func:`opportune.decomposition` splits regret in what not knowing the arrivals costs and what not knowing the rewards
# costs. The first is what the competitive ratio is about.
parts = op.decomposition(data).isel(step=-1).mean(["world", "replicate"])
print(parts.to_dataframe().drop(columns="step", errors="ignore").round(1))

# %%
# Regret over time shows the same from the other side.
figure = op.plot_regret(data)

# %%
# The full experiment has its own grid, intervals, and the paper's claims as checks. One command runs it and writes a
# report with tables, figures and data::
#
#     opportune reproduce table
#
# :doc:`/reproduce` says what came out.
