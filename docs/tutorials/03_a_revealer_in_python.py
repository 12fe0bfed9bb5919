"""A revealer of your own: first in Python, then compiled
======================================================

You have an idea of when a nudge is worth spending. Try it in plain Python, beside the built-in rules and with the same
patients. If it works, write it as a compiled rule that can be simulated by the million and served in a trial.
"""

# sphinx_gallery_thumbnail_path = "images/rivals.png"
# %%
# The idea: nudge when the advice is old, but only while stress is high. A policy in Python consists of a function that
# decides whether to nudge and one that decides what to recommend.
import opportune as op

problem = op.Problem.from_formula(
    "action * stress",
    contexts={"stress": range(1, 6)},
    actions=["rest", "breathe"],
    context_probs=[0.3, 0.3, 0.2, 0.1, 0.1],
    noise_sd=0.3,
    theta_bound=1.5,
)
world = op.LinearWorld(problem, theta={"action=breathe": -0.6, "action=breathe:stress": 0.25})


def propose(moment, memory):
    """Nudge if the advice is older than ten steps and stress is 4 or 5."""
    return moment.age > 10 and moment.context["stress"] >= 4


# %%
# The recommender learns a mean for each action and level of stress. It learns from every step, but it may use what it
# learned only once a reveal brings it up to date: ``shown.revealed``. Without a reveal it does not see stress either,
# and takes the action with the best mean over all levels.
def learn(experience, memory):
    """Keep a running mean for each action and level."""
    total, count = memory.setdefault(("seen", experience.action, experience.context["stress"]), [0.0, 0])
    memory["seen", experience.action, experience.context["stress"]] = [total + experience.reward, count + 1]


def settle(shown, memory):
    """The action with the best mean as of the last reveal; untried actions come first."""
    if shown.revealed:
        memory["known"] = {key[1:]: value for key, value in memory.items() if key[0] == "seen"}

    def mean(action):
        found = [
            value
            for (done, stress), value in memory.get("known", {}).items()
            if done == action and stress == shown.context.get("stress", stress)
        ]
        count = sum(n for _, n in found)
        return sum(total for total, _ in found) / count if count else 1.0

    return max(("rest", "breathe"), key=mean)


mine = op.PythonPolicy(propose=propose, settle=settle, learn=learn, budget=10, name="old and stressed")

# %%
# :func:`opportune.simulate` runs it beside compiled policies. All meet the same patients, so only the policies differ.
data = op.simulate(world, [mine, op.naive_ucb(10), op.pace_ucb(10)], horizon=150, replicates=40, seed=1, progress=False)
lost = op.realised_regret(data).isel(step=-1)
print(op.mean_interval(lost, ["replicate"]).to_dataframe().round(2)[["mean", "low", "high"]])

# %%
# The idea, compiled
# ------------------
# A compiled rule is one function over numbers and a class that names its settings. It runs on all cores and on a GPU,
# and a service can serve it. This one fits every problem: the age is counted as above, and in place of high stress
# it requires a positive gap, which means that knowing the context would help::
#
#     @step_function
#     def consult(p, own, moment, judged):
#         age = moment.step - p.contacts.last_reveal[0]
#         if age <= own.settings.age[0] or judged.gap <= 0.0:
#             return 0.0, 0.0
#         return max(0.0, min(1.0, budget_left(p))), 0.0
#
# A class must be registered before the first simulation of a process, so this page does not run it. :doc:`/extending`
# has the whole file, a simulation with it, and how to check it.
