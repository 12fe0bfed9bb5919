"""Why PACE works, with pictures
=============================

PACE asks three questions at every decision: how good is this moment among those to come, what has stale advice cost so
far, and what should a recommender that sees nothing do with its time? This page shows what each answer adds.
"""

# %%
# The paper's problems, its own rule, and PACE.
import matplotlib.pyplot as plt
import numpy as np

import opportune as op

worlds = op.synthetic_worlds(6, seed=1)
policies = [op.pd2_ucb(10), op.pace_ucb(10)]
data = op.simulate(worlds, policies, horizon=300, replicates=10, seed=1, progress=False)

# %%
# Which moments get a nudge
# -------------------------
# The gap is the value of knowing the context right now. PD2's price rises as the budget is used up, so PD2 spends
# early, and later moments must clear a high bar. PACE ranks: with n nudges for N decisions it takes the best n/N.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for panel, policy in zip(axes, data.policy.values, strict=True):
    run = data.sel(policy=policy).isel(world=0, replicate=0)
    panel.scatter(run.step, run.gap, s=6, color="lightgray")
    made = run.where(run.nudged, drop=True)
    panel.scatter(made.step, made.gap, s=40, color="tab:red", label="nudge")
    panel.set(title=policy, xlabel="decision")
axes[0].set(ylabel="gap")
axes[0].legend()
plt.show()

# %%
# What blind steps are for
# ------------------------
# Between reveals the recommender cannot see what its actions earn, but it knows which ones it took. PD2 repeats one
# action until the next reveal; PACE takes turns among those that may be best, so one reveal teaches about all of them.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for panel, policy in zip(axes, data.policy.values, strict=True):
    run = data.sel(policy=policy).isel(world=0, replicate=0)
    shown = run.revealed.values
    panel.scatter(run.step, run.action, s=8, c=np.where(shown, "tab:red", "tab:blue"))
    panel.set(title=policy, xlabel="decision")
axes[0].set(ylabel="action taken")
plt.show()

# %%
# The result
# ----------
# Regret against a clairvoyant with the same budget: mean over problems.
figure = op.plot_regret(data)

# %%
# :doc:`/pace` explains the rule, what is proved and what is not, and where it loses.
