"""What the CUDA kernels are tried on, as source: run on the CPU in one process, in Numba's simulator in another."""

CASES = """
import opportune as op
from opportune.worlds.distributions import Choice, LogNormal, Normal
from opportune.worlds.brushing.world import brushing_world

baselines = [
    op.Policy(revealer=op.Always()),
    op.Policy(revealer=op.Never(), recommender=op.FixedAction(action=1), name="fixed"),
    op.Policy(revealer=op.Periodic(every=3), recommender=op.RandomAction(), budget=3, name="periodic"),
]
three = [op.naive_ucb(5), op.pd1_ucb(5, scale="range"), op.pd2_ucb(5)]
small = op.synthetic_worlds(2, seed=1, contexts=4, actions=3)
unknown = op.synthetic_worlds(2, seed=1, contexts=4, actions=3, known=False)
one = unknown[:1] * 2  # two participants with one problem
rated = [w.replace(open_rate=0.3, response_rate=0.5) for w in small]
late = [w.replace(reward_delay=3, reward_rate=0.7, available_rate=0.8, open_rate=0.2) for w in unknown]
thompson = op.Policy(recommender=op.Thompson(), budget=5, name="Thompson")
pooled = op.Policy(budget=5, pooled=True, name="pooled")
both = op.Policy(budget=op.Budget(6, shared=True), pooled=True, name="both")

variables = {"tod": op.TimeOfDay(["am", "pm"]), "stress": (0, 1), "mood": (0, 1)}
scheduled = op.Problem.from_formula(
    "1 + tod + action * stress + mood", variables, 2, [0.1, 0.2, 0.05, 0.15, 0.1, 0.2, 0.1, 0.1],
    visibility={"mood": "reported"},
)
scheduled_world = op.LinearWorld(scheduled, theta=[0.1] * scheduled.d, open_rate=0.3)
late_reported = scheduled_world.replace(problem=scheduled.replace(context_probs=None), reward_delay=2)
continuous = op.Problem.from_formula(
    "1 + tod + x + log1p(y):action + action * mood",
    {"tod": op.TimeOfDay(["am", "pm"]), "x": op.Number(-1, 1), "y": op.Number(0, 9), "mood": ("low", "high")}, 2,
)
draws = {"x": Normal(0, 1), "y": LogNormal(2, 0.5), "mood": Choice({"low": 0.4, "high": 0.6})}
continuous_world = op.ContinuousWorld(continuous, theta=[0.2] * continuous.d, distributions=draws, open_rate=0.2)
reported = continuous_world.replace(problem=continuous.replace(visibility={"x": "reported"}), reward_delay=2)

CASES = {
    "traced": (op.synthetic_worlds(2, seed=1), three + baselines, 12, 2, True),
    "totals": (small, three, 12, 3, False),
    "unknown": (unknown, [op.pd2_ucb(5)], 12, 2, True),
    "hard": (rated, [op.pd2_ucb(op.Budget(5, hard=True))], 12, 2, True),
    "brushing": (brushing_world(users=2), [op.pd2_ucb(5, scale="range"), op.pd1_ucb(5)], 8, 1, True),
    "shared": (rated, [op.pd2_ucb(op.Budget(6, shared=True)), op.pd2_ucb(5, name="own")], 10, 3, True),
    "pooled": (one, [pooled, both], 10, 3, True),
    "late, lost and absent": (late, [op.pd2_ucb(5), thompson], 14, 2, True),
    "late and pooled": ([late[0]] * 2, [pooled], 10, 1, True),
    "Thompson": (small, [thompson, op.Policy(recommender=op.Thompson(inflation=2.0), budget=5, pooled=False, name="2")],
                 12, 2, True),
    "schedule, reported": ([scheduled_world], [op.pd2_ucb(5), thompson], 12, 2, True),
    "schedule, reported, late": ([late_reported], [op.pd2_ucb(5)], 12, 2, True),
    "continuous": ([continuous_world], [op.pd2_ucb(4), thompson], 10, 2, True),
    "continuous, reported, late": ([reported], [op.pd2_ucb(4)], 10, 2, True),
    "continuous, pooled": ([continuous_world] * 2, [pooled, both], 8, 1, False),
    "PACE": (rated, [op.pace_ucb(5), op.pace_ucb(op.Budget(6, shared=True), name="shared")], 10, 2, True),
    "pointwise": (one, [op.pace_ucb(5, radius="pointwise"), op.pd2_ucb(5, radius="pointwise"), op.pd2_ucb(5, name="2"),
                        op.Policy(recommender=op.LinUCB(radius="pointwise"), budget=5, pooled=True, name="pooled")],
                  10, 2, True),
    "pointwise, late": (late, [op.pd2_ucb(5, radius="pointwise", rotate=True)], 12, 2, True),
    "pointwise, continuous": ([reported], [op.pace_ucb(4, radius="pointwise")], 10, 2, True),
}

def run(name, **settings):
    worlds, policies, horizon, replicates, trace = CASES[name]
    return op.simulate(
        worlds, policies, horizon=horizon, replicates=replicates, seed=3, trace=trace, progress=False, **settings
    )
"""
