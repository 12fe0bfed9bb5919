"""The record of a run: one declaration of a step's fields and of a run's totals, for every driver and the Dataset.

Compiled code fills a `Record` per step; `add_up` adds it to the run's totals, `write_down` writes it into the trace.
Both are generated from the declarations.
"""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, get_type_hints

from opportune.engine.compiled import inner_function
from opportune.engine.declared import BESIDE_CHANCES


class Record(NamedTuple):
    """One step: numbers first, then whole numbers, then yes or no."""

    probability: Annotated[float, "probability of a nudge"]
    gap: Annotated[float, "value of knowing the context now, scaled"]
    price: Annotated[float, "the threshold that the gap was compared with"]
    disagreement: Annotated[float, "distance between the fresh and the stale action's blind features"]
    tolerance: Annotated[float, "the step's final tolerance"]
    reward: Annotated[float, "the reward; NaN where it never arrives"]
    value: Annotated[float, "the paper's value: averaged over contexts where nothing was revealed"]
    outcome: Annotated[float, "the expected reward of the action in this context, or the world's own outcome"]
    best: Annotated[float, "the expected reward of the best action in this context; NaN where it is not known"]
    context: Annotated[int, "the context's number, contexts finite"]
    action: Annotated[int, "the action taken"]
    fresh_action: Annotated[int, "the blind action given everything known"]
    stale_action: Annotated[int, "the blind action given the knowledge of the last reveal"]
    reason: Annotated[int, "why no nudge was possible; 0 where one was"]
    revealed: Annotated[bool, "the recommender was brought up to date"]
    nudged: Annotated[bool, "a nudge was made"]
    opened: Annotated[bool, "the patient opened the app unasked"]
    available: Annotated[bool, "the patient was available and sensed values were present"]
    eligible: Annotated[bool, "a nudge was possible here"]


class Totals(NamedTuple):
    """A whole run. Each field is the sum of a step's field, except the last."""

    total_reward: Annotated[float, "reward"]
    total_value: Annotated[float, "value"]
    total_outcome: Annotated[float, "outcome"]
    total_best: Annotated[float, "best"]
    spent: Annotated[float, "probability"]
    nudges: Annotated[int, "nudged"]
    reveals: Annotated[int, "revealed"]
    opens: Annotated[int, "opened"]
    final_price: Annotated[float, ""]


def _kinds(declared: type) -> dict[str, tuple[type, str]]:
    hints = get_type_hints(declared, include_extras=True)
    return {name: (hint.__origin__, hint.__metadata__[0]) for name, hint in hints.items()}


FIELDS = _kinds(Record)
TOTALS = _kinds(Totals)
NUMBERS = tuple(name for name, (kind, _) in FIELDS.items() if kind is float)
MARKS = tuple(name for name, (kind, _) in FIELDS.items() if kind is not float)
FINAL_PRICE = Totals._fields.index("final_price")


@inner_function
def write_chances(p, t, traced, chances):  # type: ignore[no-untyped-def]
    """Write the probability of each action at a step, if actions are drawn."""
    if t < traced and p.sizes.randomised > 0:
        for i in range(p.sizes.actions + BESIDE_CHANCES):
            chances[i * traced + t] = p.scratch.chance[i]


def _generate(name: str, arguments: str, lines: Sequence[str]) -> Any:
    scope: dict[str, Any] = {"__name__": __name__}  # the module in which compiled code looks the function up
    body = "\n".join(f"    {line}" for line in lines)
    exec(compile(f"def {name}({arguments}):\n{body}\n", "<simulation.record>", "exec"), scope)
    return inner_function(scope[name])


add_up = _generate(
    "add_up",
    "record, totals",
    [
        *(f"totals[{i}] += record.{of}" for i, (_, of) in enumerate(TOTALS.values()) if of not in {"", "reward"}),
        "if record.reward == record.reward:",  # a reward that never arrives is NaN
        f"    totals[{list(TOTALS).index('total_reward')}] += record.reward",
    ],
)

write_down = _generate(
    "write_down",
    "record, t, traced, numbers, marks",
    [
        "if t < traced:",
        *(f"    numbers[{i} * traced + t] = record.{name}" for i, name in enumerate(NUMBERS)),
        *(f"    marks[{i} * traced + t] = record.{name}" for i, name in enumerate(MARKS)),
    ],
)
