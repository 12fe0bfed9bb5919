"""A decision that an agent could not make, or not settle: someone else's stands, and nothing is learned from it."""

from typing import Any

from opportune import checks
from opportune.errors import StateError
from opportune.live import point
from opportune.live.agent import Agent
from opportune.live.point import NOTHING


def stand_in(agent: Agent, context: Any, *, action: str, probability: float, coin: float) -> bool:
    """Count the agent's next decision point as decided by someone else; hands back whether the coin says to nudge.

    The budget is charged with `probability`, and with the nudge. The agent's model, snapshot and memory stay as they
    are, so this needs none of them to be sound.
    """
    if agent.open_proposal is not None:
        raise StateError(f"step {agent.open_proposal.step} is not settled yet; call settle(...) first")
    if agent.withdrawn or agent.step >= agent.horizon:
        raise StateError("the participant makes no more decisions")
    checks.choice("action", action, agent.problem.action_names)
    checks.real("probability", probability, least=0.0, most=1.0)
    checks.real("coin", coin, least=0.0, below=1.0)
    step = point.new_step(agent.problem, agent.reported_names, agent.step + 1, context, None)
    step.action = agent.problem.action_names.index(action)
    step.settled, step.status = True, NOTHING
    nudged = coin < probability
    agent.step = step.step
    agent.steps[step.step] = step
    agent.numbers.budget.points[0] += 1.0
    agent.numbers.budget.spent[0] += probability
    agent.numbers.budget.nudges[0] += float(nudged)
    return nudged


def let_stand(agent: Agent) -> str:
    """Settle the agent's open proposal without it, as not revealed; hands back the action that stood, and stands.

    What was charged stays charged, and a nudge may be answered late. All else of the agent stays as it is, as in
    `stand_in`.
    """
    made = agent.open_proposal
    if made is None:
        raise StateError("there is no open proposal")
    step = agent.steps[made.step]
    step.action = agent.problem.action_names.index(made.action)
    step.settled, step.status, step.unanswered = True, NOTHING, made.nudged
    agent.open_proposal = None
    return made.action
