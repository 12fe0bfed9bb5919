"""A problem of your own
=====================

Describe a problem by a formula, say what is true in a simulated world, and put policies beside each other.
"""

# %%
# What agents know
# ----------------
# The formula says which features the reward depends on, over what is known of a moment and over the action. Here the
# app knows the time of day, and the phone senses stress from 1 to 5.
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
# A world adds the true effects, which the agents must learn: breathing helps the more the higher the stress, walking
# the other way round. Half of the nudges are answered, and now and then patients open the app by themselves.
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
# Every policy meets the same patients, moments and noise, so differences between policies are differences between
# policies.
policies = [op.naive_ucb(10), op.pd2_ucb(10), op.pace_ucb(10)]
data = op.simulate(world, policies, horizon=140, replicates=200, seed=1)
print(op.realised_regret(data).isel(step=-1).mean(["world", "replicate"]).to_series().round(2))

# %%
# What patients lose against knowing everything, over time:
lost = op.realised_regret(data).mean(["world", "replicate"])
figure, axes = plt.subplots()
for policy in lost.policy.values:
    axes.plot(lost.step, lost.sel(policy=policy), label=policy)
axes.set(xlabel="decision", ylabel="realised regret")
axes.legend()
plt.show()

# %%
# A result is an xarray Dataset; :func:`opportune.save` writes it as netCDF, which R, Julia and MATLAB read.
print(dict(data.sizes))
