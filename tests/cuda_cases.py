"""What the CUDA kernels are tried on, as source: run on the CPU in one process, in Numba's simulator in another."""

CASES = """
import numpy as np

import opportune as op
from opportune.worlds.distributions import Choice, LogNormal, Normal
from opportune.worlds.brushing.world import brushing_world

baselines = [
    op.Policy(revealer=op.Always()),
    op.Policy(revealer=op.Never(), recommender=op.FixedAction(action=1), name="fixed"),
    op.Policy(revealer=op.Periodic(every=3), recommender=op.EqualCoins(), budget=3, name="periodic"),
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

rng = np.random.default_rng(5)
masked = op.Problem(
    rng.normal(size=(8, 3, 3)), rng.dirichlet(np.ones(8)), noise_sd=0.3, theta_bound=2.0,
    variables={"hour": ["am", "pm"], "place": ["home", "out"], "mood": ["good", "low"]},
    visibility={"hour": "public", "mood": "reported"},
    allowed=[[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 1, 1], [0, 1, 1]],
    when_unknown={"0": "allow"},
)
masked_world = op.LinearWorld(masked, theta=[0.5, -0.5, 1.0], open_rate=0.2, available_rate=0.9)
guided = op.Problem.from_formula(
    "1 + tod + action * pain",
    {"tod": op.TimeOfDay(["am", "pm"]), "pain": op.Number(0, 10)}, ["rest", "walk", "call"],
    never_if={"walk": "pain > 6", "call": 'tod == "am" or not pain >= 2'},
    when_unknown={"walk": "forbid", "call": "allow"}, theta_bound=3.0,
)
guided_world = op.ContinuousWorld(
    guided, theta=[0.2] * guided.d, distributions={"pain": Normal(5, 3)}, open_rate=0.2
)
coins = op.Policy(recommender=op.EqualCoins(), revealer=op.Periodic(every=3), name="coins")
habits = {"response_spread": 0.5, "habituation": 0.6, "spells": {"rate": 0.1, "days": 2}, "bounds": (0.0, 0.8)}
people = [w.replace(response_rate=0.7, **habits) for w in small]
binary = continuous_world.replace(response_rate=[0.9, 0.4], open_rate=[0.0, 0.3], family="binary", habituation=0.6)

past = {"recent": op.History(of="reward", summary="mean", decisions=4, discount=0.9, low=-1, high=2),
        "dose": op.History(of="nudges", summary="sum", days=3), "quiet": op.History(of="contact", summary="days since")}
past_problem = op.Problem.from_formula("1 + action * (recent + dose + quiet)", past, 2)
remembered = op.ContinuousWorld(past_problem, theta=[0.2, 0.1, -0.1, 0.05] * 2, reward_delay=2, response_rate=0.6)

small_steps = {"rho_1": 0.5, "rho_2": 2.0}  # among numbers near 1, ties are ties to the last digits on any device
sensed = op.StepCountWorld(uncertainty=0.8, constants=small_steps, noise_sd=0.2, response_rate=0.7, reward_delay=2)
log = {"tod": ["am", "pm"] * 12, "action": ["rest", "rest", "walk", "walk"] * 6, "reward": np.linspace(-1, 2, 24)}
logged = op.ResampledWorld(
    op.Problem.from_formula("action * tod", {"tod": op.TimeOfDay(["am", "pm"])}, ["rest", "walk"], [0.5, 0.5]), log
)
counts = [w.replace(family="count", bounds=(0.0, 9.0)) for w in small]
lasting = op.LinearWorld(scheduled.replace(context_probs=[1 / 8] * 8), theta=[0.1] * 6, persistence={"stress": 0.7})
weekly = op.Limits(run_in=3, per_week=2, least_hours_between=30.0)
slots = np.array([0, 5])[:, None] + np.arange(16)
calendar = op.Timetable(closed=np.where(slots % 2, 6, 0), hours=12.0 * slots, day=slots // 2, start=slots[:, 0])

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
    "people": (people, [op.pd2_ucb(5), op.pd2_ucb(op.Budget(6, shared=True), name="shared")], 16, 2, True),
    "people, continuous": ([binary], [op.pd2_ucb(5)], 16, 2, True),
    "history": ([remembered], [op.pd2_ucb(5), op.Policy(budget=5, pooled=True, name="pooled")], 14, 2, True),
    "PACE": (rated, [op.pace_ucb(5, radius="uniform", value="paper"),
             op.pace_ucb(op.Budget(6, shared=True), radius="uniform", value="paper", name="shared")], 10, 2, True),
    "pointwise": (one, [op.pace_ucb(5, value="paper"), op.pd2_ucb(5, radius="pointwise"), op.pd2_ucb(5, name="2"),
                        op.Policy(recommender=op.LinUCB(radius="pointwise"), budget=5, pooled=True, name="pooled")],
                  10, 2, True),
    "floors": ([masked_world.replace(reward_delay=2)], [
        op.Policy(recommender=op.LinUCB(floor=0.1), budget=5, name="LinUCB"),
        op.Policy(recommender=op.LinUCB(floor=0.05, rotate=True), revealer=op.Pace(), budget=5, update=3, name="PACE"),
        op.Policy(recommender=op.Thompson(points=16, floor=0.05), budget=5, name="points"),
        op.Policy(budget=5, limits=op.Limits(run_in=4), name="run-in"),
    ], 12, 2, True),
    "floors, continuous": ([guided_world], [
        op.Policy(recommender=op.LinUCB(floor=0.1), budget=5, update=4, name="LinUCB"),
        op.Policy(recommender=op.Thompson(points=8), budget=5, name="points"),
    ], 10, 2, True),
    "masked": ([masked_world], [
        op.pd2_ucb(5), op.pace_ucb(5, value="realised", radius="uniform"), thompson, coins,
    ], 12, 2, True),
    "masked, continuous": ([guided_world], [
        op.pd2_ucb(5), op.pace_ucb(5, value="paper", radius="uniform"), thompson, coins,
    ], 10, 2, True),
    "pointwise, late": (late, [op.pd2_ucb(5, radius="pointwise", rotate=True)], 12, 2, True),
    "pointwise, continuous": ([reported], [op.pace_ucb(4, value="paper")], 10, 2, True),
    "step counts": ([sensed], [op.pd2_ucb(4), op.pace_ucb(5)], 12, 1, True),
    "log": ([logged], [op.pd2_ucb(4)], 12, 2, True),
    "counts": (counts, [op.pd2_ucb(4)], 12, 2, True),
    "persistence": ([lasting], [op.pd2_ucb(4)], 12, 2, True),
    "guard, response": (rated, [
        op.pace_ucb(5, guard=0.5), op.pace_ucb(op.Budget(6, shared=True), response=True, name="response"),
    ], 12, 2, True),
    "calendar": (rated, [
        op.Policy(recommender=op.LinUCB(), revealer=op.Pace(), budget=5, limits=weekly, name="PACE"),
        op.Policy(budget=5, limits=weekly, name="PD2"),
    ], 16, 1, True),
}

def run(name, **settings):
    worlds, policies, horizon, replicates, trace = CASES[name]
    return op.simulate(
        worlds, policies, horizon=horizon, replicates=replicates, seed=3, trace=trace, progress=False,
        timetable=calendar if name == "calendar" else None, **settings
    )
"""
