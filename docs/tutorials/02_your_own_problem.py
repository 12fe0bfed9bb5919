"""A problem of your own
=====================

Describe a problem by a formula, set the true effects of a simulated world, and compare policies.
"""

# %%
# What agents know
# ----------------
# The formula names the features that the reward depends on: variables of the moment, and the action. Here the app knows
# the time of day, and the phone senses stress from 1 to 5.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import opportune as op

problem = op.Problem.from_formula(
    "1 + action * stress + time",
    contexts={"time": op.TimeOfDay(["morning", "evening"]), "stress": range(1, 6)},
    actions=["rest", "breathe", "walk"],
    noise_sd=0.3,
    theta_bound=2.0,
)
print(problem.terms)

# %%
# What is true
# ------------
# A world adds the true effects, which the agents must learn: breathing helps most under high stress, walking under low
# stress. Half of the nudges are answered, and now and then patients open the app unasked.
world = op.LinearWorld(
    problem,
    theta={
        "intercept": 0.2,
        "action=breathe": -0.4,
        "action=walk": 0.5,
        "action=breathe:stress": 0.2,
        "action=walk:stress": -0.15,
    },
    context_probs=[0.1] * 10,
    response_rate=0.5,
    open_rate=0.05,
)

# %%
# Who does best
# -------------
# Every policy meets the same patients, moments and noise, so only the policies differ.
policies = [op.naive_ucb(10), op.pd2_ucb(10), op.pace_ucb(10)]
data = op.simulate(world, policies, horizon=140, replicates=200, seed=1)
print(op.realised_regret(data).isel(step=-1).mean(["world", "replicate"]).to_series().round(2))

# %%
# What patients lose over time, compared with the best action at every moment:
lost = op.realised_regret(data).mean(["world", "replicate"])
figure, axes = plt.subplots()
for policy in lost.policy.values:
    axes.plot(lost.step, lost.sel(policy=policy), label=policy)
axes.set(xlabel="decision", ylabel="realised regret")
axes.legend()
file = Path(tempfile.mkdtemp()) / "realised_regret.png"
figure.savefig(file)
print(f"The figure is in {file}.")
plt.show()

# %%
# A result is an xarray Dataset; :func:`opportune.save` writes it as netCDF, which R, Julia and MATLAB read.
print(dict(data.sizes))
