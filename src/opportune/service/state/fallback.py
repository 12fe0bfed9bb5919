"""Decisions that the agent could not make or settle: another decision takes their place, and nothing is learned."""

from typing import Any

from opportune import checks
from opportune.errors import StateError
from opportune.live import point
from opportune.live.agent import Agent
from opportune.live.point import NOTHING


def stand_in(agent: Agent, context: Any, *, action: str, probability: float, coin: float) -> bool:
    """Enter a decision made without the agent as its next step; returns whether the coin says to nudge.

    The budget is charged with `probability`, and with the nudge. The agent's model, snapshot and memory are neither
    used nor changed, so they need not be sound.
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
    """Settle the agent's open proposal as not revealed, without the agent; returns its action, which stays valid.

    The budget stays charged, and a nudge may still be answered late. The agent's model, snapshot and memory are
    neither used nor changed.
    """
    made = agent.open_proposal
    if made is None:
        raise StateError("there is no open proposal")
    step = agent.steps[made.step]
    step.action = agent.problem.action_names.index(made.action)
    step.settled, step.status, step.unanswered = True, NOTHING, made.nudged
    agent.open_proposal = None
    return made.action
