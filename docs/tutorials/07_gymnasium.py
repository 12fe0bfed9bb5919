"""Gymnasium: a random agent, a learned rule, a learner from another library
==========================================================================

With the extra ``gym`` a world is a `Gymnasium <https://gymnasium.farama.org>`_ environment. This page steps through one
at random, learns when to nudge by trial and error, and ends with the loop that reinforcement-learning libraries use.
"""

# %%
# The world
# ---------
# The phone senses stress, and breathing exercises help only under stress. Most moments are calm: the few that are not
# are worth a nudge, and there are eight nudges for eighty decisions.
import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import opportune as op
import opportune.gym

problem = op.Problem.from_formula(
    "action * stress",
    contexts={"stress": range(1, 6)},
    actions=["rest", "breathe"],
    context_probs=[0.4, 0.3, 0.15, 0.1, 0.05],
    noise_sd=0.3,
    theta_bound=2.0,
)
world = op.LinearWorld(problem, theta={"action=breathe": -0.6, "action=breathe:stress": 0.25})
BUDGET, HORIZON = 8, 80

# %%
# A random agent
# --------------
# Each decision takes two steps of the environment: nudge or not (phase 0), then an action (phase 1).
# ``info["action_mask"]`` marks the valid choices, ``info["cost"]`` is 1 if a nudge was made.
env = gymnasium.make("opportune/Reveal-v0", world=world, budget=BUDGET, horizon=HORIZON)
seen, info = env.reset(seed=1)
env.action_space.seed(1)
total, nudges, over = 0.0, 0.0, False
while not over:
    seen, reward, over, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
    total += reward
    nudges += info["cost"]
print(f"{nudges:.0f} nudges, reward {total:.2f}")
print({name: value.tolist() for name, value in seen.items()})

# %%
# A learned stopping rule
# -----------------------
# When to nudge is a problem of optimal stopping. To learn only this, let the recommender know the effects: it
# recommends rest while it sees nothing, and breathing if a reveal shows that breathing helps. A rule consists of seven
# numbers: a score for each level of stress, and two weights for the shares of nudges and of time that are left. A
# positive score means nudge.
#
# The vector environment steps many participants at once with compiled code, so trial and error is affordable. The
# cross-entropy method draws rules, keeps the best ones, and draws again around them.
effects = np.array([-0.35, -0.1, 0.15, 0.4, 0.65])  # of breathing, by stress


def play(rule, participants, seed):
    """The total reward of each participant's episode under a rule."""
    many = gymnasium.make_vec(
        "opportune/Reveal-v0",
        num_envs=participants,
        vectorization_mode="vector_entry_point",
        world=world,
        budget=BUDGET,
        horizon=HORIZON,
    )
    seen, _ = many.reset(seed=seed)
    total = np.zeros(participants)
    for _ in range(HORIZON):
        seen, _, _, _, _ = many.step((rule(seen) > 0).astype(int))
        stress = seen["context"][:, 0].astype(int)
        seen, reward, _, _, _ = many.step(((seen["revealed"] == 1) & (effects[stress] > 0)).astype(int))
        total += reward
    return total


def learned(weights):
    """The rule with these weights."""
    return lambda seen: (
        weights[seen["context"][:, 0].astype(int)]
        + weights[5] * seen["budget_left"][:, 0]
        + weights[6] * (1.0 - seen["time"][:, 0])
    )


generator = np.random.default_rng(1)
centre, spread = np.zeros(7), np.ones(7)
progress = []
for generation in range(12):
    rules = generator.normal(centre, spread, size=(30, 7))
    scores = [play(learned(weights), 100, seed=generation).mean() for weights in rules]
    best = rules[np.argsort(scores)[-6:]]
    centre, spread = best.mean(axis=0), best.std(axis=0) + 0.02
    progress.append(play(learned(centre), 1000, seed=1000).mean())
print(dict(zip(["stress 1", "2", "3", "4", "5", "nudges left", "time left"], centre.round(2).tolist(), strict=True)))

# %%
# How good is it? Here the best possible rule can be computed backwards from the last decision: with b nudges and t
# decisions left, the rule nudges if the gain exceeds what the nudge would bring later.
gains, probs = np.maximum(effects, 0.0), np.array([0.4, 0.3, 0.15, 0.1, 0.05])
value = np.zeros(BUDGET + 1)
for _ in range(HORIZON):
    value[1:] = probs @ np.maximum(gains[:, None] + value[:-1], value[1:])

found = {
    "learned": play(learned(centre), 4000, seed=1000),
    "every ten": play(lambda seen: seen["age"][:, 0] * HORIZON - 9.5, 4000, seed=1000),
    "at once": play(lambda seen: np.ones(4000), 4000, seed=1000),
}
for name, rewards in found.items():
    half = 1.96 * rewards.std() / len(rewards) ** 0.5
    print(f"{name:>10}: {rewards.mean():.2f} ({rewards.mean() - half:.2f} to {rewards.mean() + half:.2f})")
print(f"  the best: {value[BUDGET]:.2f}")

figure, axes = plt.subplots()
axes.plot(progress, label="the rule learned so far")
axes.axhline(value[BUDGET], color="gray", linestyle=":", label="the best possible rule")
axes.set(xlabel="generation", ylabel="mean reward of an episode")
axes.legend()
plt.show()

# %%
# The loop of reinforcement-learning libraries
# --------------------------------------------
# Stable-Baselines3 and its kin share one pattern: ``learn`` steps through the environment by itself, ``predict`` gives
# an action. Here it is with a table of values in place of a network.


class Table:
    """Q-learning over phase, stress, and nudges left per time left in four steps."""

    def __init__(self, env, seed=0):
        self.env, self.values = env, {}
        self.generator = np.random.default_rng(seed)

    def key(self, seen):
        """The row of the table."""
        stress = int(seen["context"][0]) if seen["known"][0] else -1
        pace = seen["budget_left"][0] / max(1.0 - seen["time"][0], 1 / HORIZON)
        return int(seen["phase"]), stress, int(np.digitize(pace, [0.01, 0.8, 1.2]))

    def predict(self, seen, action_masks):
        """The best valid action, by the table."""
        values = self.values.get(self.key(seen), np.zeros(2))
        return int(np.argmax(np.where(action_masks, values, -np.inf)))

    def learn(self, total_timesteps):
        """Step through episodes; learn the reward of a phase and all that follows."""
        seen, _ = self.env.reset(seed=1)
        counts = {}
        for _ in range(total_timesteps):
            masks = self.env.unwrapped.action_masks()
            explore = self.generator.random() < 0.1
            action = int(self.generator.choice(np.flatnonzero(masks))) if explore else self.predict(seen, masks)
            here = self.key(seen)
            seen, reward, over, _, _ = self.env.step(action)
            following = 0.0 if over else self.values.get(self.key(seen), np.zeros(2)).max()
            counts[here, action] = counts.get((here, action), 0) + 1
            values = self.values.setdefault(here, np.zeros(2))
            values[action] += (reward + following - values[action]) / counts[here, action] ** 0.6
            if over:
                seen, _ = self.env.reset()
        return self


model = Table(env).learn(total_timesteps=20_000)
totals = []
for episode in range(50):
    seen, _ = env.reset(seed=1000 if episode == 0 else None)
    total, over = 0.0, False
    while not over:
        seen, reward, over, _, _ = env.step(model.predict(seen, action_masks=env.unwrapped.action_masks()))
        total += reward
    totals.append(total)
half = 1.96 * np.std(totals) / len(totals) ** 0.5
print(f"table: {np.mean(totals):.2f} ({np.mean(totals) - half:.2f} to {np.mean(totals) + half:.2f})")

# %%
# With sb3-contrib (tried with 2.9) the class is ready-made and the loop stays the same. Expect a network to need many
# more steps than a table::
#
#     from sb3_contrib import MaskablePPO
#
#     model = MaskablePPO("MultiInputPolicy", env, seed=1).learn(total_timesteps=200_000)
#     action, _ = model.predict(seen, action_masks=env.unwrapped.action_masks(), deterministic=True)
#
# A rule that proves itself here can stand beside ours in :func:`opportune.simulate` as an
# :class:`opportune.PythonPolicy`: :doc:`/python`.
