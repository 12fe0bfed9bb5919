"""`Agent`: one patient, live. The same step functions as in `simulate`, one decision at a time."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opportune import checks
from opportune._version import __version__
from opportune.core import live
from opportune.core.layout import NUDGES, PURSE_SIZE, SPENT
from opportune.core.pointers import aligned
from opportune.core.reveal import LEARNING_PRIMAL_DUAL, PRIMAL_DUAL
from opportune.core.rng import COIN, TREATMENT, draw
from opportune.errors import InputError, StateError
from opportune.policy import Policy, rule_for
from opportune.problems.finite import Problem

STATE_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything an auditor needs to know of one decision.

    `price` is what the gap was compared with, before this step moved it; rules that are not `priced` nudge whatever
    the gap. `coin` fell below `probability` if and only if `nudged`; a nudge reveals unless it went unanswered, and
    so does the patient opening the app.
    """

    step: int
    probability: float
    nudged: bool
    opened: bool
    revealed: bool
    action: int
    fresh_action: int
    stale_action: int
    gap: float
    price: float
    disagreement: float
    tolerance: float
    budget_left: float
    coin: float
    priced: bool

    @property
    def why(self) -> str:
        """The decision in a sentence."""
        worth = "the rule nudges whatever the context"
        if self.priced:
            worth = f"knowing the context is worth {self.gap:.2f} on the scale of the price"
        if self.opened:
            return "Revealed free of charge: the patient opened the app."
        if self.nudged:
            price = f", the price is {self.price:.2f}" if self.priced else ""
            end = "the patient answered" if self.revealed else "it went unanswered, so the old advice stands"
            return f"Nudge: {worth}{price}; probability {self.probability:.2f}, coin {self.coin:.2f}; {end}."
        if self.probability > 0.0:
            return f"No nudge: {worth}, but the coin {self.coin:.2f} fell above {self.probability:.2f}."
        if self.budget_left <= 1e-9:
            return "No nudge: the budget is spent."
        if self.priced and self.gap <= self.price:
            return f"No nudge: {worth}, which does not exceed the price {self.price:.2f}."
        return "No nudge: the rule has none planned for this step."


class Agent:
    """Decides for one patient: `decide`, then `learn` (or `skip` if the reward is missing), step by step.

    Args:
        problem: what is known beforehand.
        policy: who recommends, who reveals, with what budget.
        horizon: number of decisions, T.
        seed: of the study; every coin is a pure function of (seed, stream, step).
        stream: the patient's number.

    """

    def __init__(self, problem: Problem, policy: Policy, *, horizon: int, seed: int = 0, stream: int = 0) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem is {type(problem).__name__}; expected a Problem")
        if not isinstance(policy, Policy):
            raise InputError(f"policy is {type(policy).__name__}; expected a Policy, such as pd2_ucb(budget=10)")
        if policy.shared:
            raise InputError("the policy's budget is shared between participants; expected shared=False for one agent")
        self.problem = problem
        self.policy = policy
        self.horizon = checks.whole("horizon", horizon, least=1)
        self.seed = checks.whole("seed", seed, least=0, most=2**64 - 1)
        self.stream = checks.whole("stream", stream, least=0, most=2**64 - 1)
        self._key = np.uint64(self.seed), np.uint64(self.stream)  # also where they exceed 2^63
        self.step = 0
        rule = rule_for(policy, problem, horizon=self.horizon)
        self._at = problem.layout(optimistic=policy.optimistic)
        self._places = np.array(self._at, dtype=np.int64)
        self._facts = problem.facts(self._at, self.horizon)
        self._rule = np.array([float(x) for x in rule])
        self._budget = rule.budget
        self._hard = rule.hard
        self._priced = rule.rule in {PRIMAL_DUAL, LEARNING_PRIMAL_DUAL}
        self._treats_at_random = type(policy.recommender).__name__ == "RandomAction"
        self._s = aligned(self._at.size)
        self._purse = np.zeros(PURSE_SIZE)
        self._out = np.zeros(live.OUT_SIZE)
        self._waiting: tuple[int, int, bool] | None = None  # context, action, revealed of a decided step
        self._cells = problem.cell_of.tolist()
        live.begin_live(self._places, self._facts, self._s, self._purse)

    @property
    def budget_left(self) -> float:
        """What is left of the budget: expected, and with a hard one also counted."""
        left = self._budget - self._purse[SPENT]
        if self._hard:
            left = min(left, self._budget - self._purse[NUDGES])
        return float(left)

    def decide(
        self, context: Any, coin: float | None = None, *, opened: bool = False, answered: bool = True
    ) -> Decision:
        """Decide whether to nudge and what to recommend, now that `context` is here.

        Args:
            context: the context's number, or {variable: level}. Of reported variables nothing is used before a
                reveal.
            coin: a uniform in [0, 1) to use instead of the agent's own, for replay.
            opened: the patient has opened the app unasked, which reveals free of charge.
            answered: a nudge, if one is made, is answered.

        """
        if self._waiting is not None:
            raise StateError(f"step {self.step} has no reward yet; call learn(reward), or skip() if it is missing")
        if self.step >= self.horizon:
            raise StateError(f"all {self.horizon} decisions are made; the horizon is over")
        k = self.problem.index(context)
        step = self.step + 1
        coin = draw(*self._key, step, COIN) if coin is None else checks.real("coin", coin, least=0.0, below=1.0)
        out = self._out
        live.propose_live(
            self._places,
            self._facts,
            self._rule,
            self._s,
            self._purse,
            step,
            k,
            self._cells[k],
            opened,
            coin,
            out,
        )
        gap, price, probability, tolerance, disagreement, fresh, stale, nudged = out[:8].tolist()
        revealed = bool(opened or (nudged and answered))
        chance = draw(*self._key, step, TREATMENT) if self._treats_at_random else 0.0
        live.settle_live(self._places, self._facts, self._rule, self._s, k, revealed, chance, out)
        action = int(out[live.ACTION])
        self.step = step
        self._waiting = (k, action, revealed)
        return Decision(
            step=step, probability=probability, nudged=bool(nudged), opened=bool(opened), revealed=revealed,
            action=action, fresh_action=int(fresh), stale_action=int(stale), gap=gap, price=price,
            disagreement=disagreement, tolerance=tolerance, budget_left=self.budget_left, coin=coin,
            priced=self._priced,
        )  # fmt: skip

    def learn(self, reward: float) -> None:
        """The reward of the step just decided."""
        self._finish(True, checks.real("reward", reward))

    def skip(self) -> None:
        """The reward of the step just decided is missing: go on without it."""
        self._finish(False, 0.0)

    def _finish(self, rewarded: bool, reward: float) -> None:
        if self._waiting is None:
            raise StateError("there is no decision to learn from; call decide(context) first")
        k, action, revealed = self._waiting
        live.learn_live(self._places, self._facts, self._s, k, self._cells[k], action, revealed, rewarded, reward)
        self._waiting = None

    def to_dict(self) -> dict[str, Any]:
        """The whole agent as plain JSON values; `from_dict` resumes it exactly."""
        saved = {
            "format": STATE_FORMAT,
            "version": __version__,
            "problem": self.problem.to_dict(),
            "policy": self.policy.describe(),
            "horizon": self.horizon,
            "seed": self.seed,
            "stream": self.stream,
            "step": self.step,
            "waiting": None if self._waiting is None else list(self._waiting),
            "purse": self._purse.tolist(),
            "state": self._s[: self._at.kept_size].tolist(),
        }
        return {**saved, "checksum": _checksum(saved)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Agent":
        """The agent that `to_dict` described, ready to go on as if it had never stopped."""
        if not isinstance(saved, Mapping) or "format" not in saved:
            raise StateError("this is not an agent's state: it has no 'format'")
        if saved["format"] != STATE_FORMAT:
            raise StateError(
                f"the state has format {saved['format']!r}, written by version {saved.get('version')!r}; "
                f"this version ({__version__}) reads format {STATE_FORMAT}"
            )
        body = {key: value for key, value in saved.items() if key != "checksum"}
        if saved.get("checksum") != _checksum(body):
            raise StateError("the state's checksum does not fit its contents: it was changed or cut after saving")
        agent = cls(
            Problem.from_dict(saved["problem"]),
            Policy.from_dict(saved["policy"]),
            horizon=saved["horizon"],
            seed=saved["seed"],
            stream=saved["stream"],
        )
        agent.step = saved["step"]
        if saved["waiting"] is not None:
            context, action, revealed = saved["waiting"]
            agent._waiting = (int(context), int(action), bool(revealed))
        agent._purse[:] = saved["purse"]
        agent._s[: agent._at.kept_size] = saved["state"]
        return agent

    def __repr__(self) -> str:
        return f"Agent({self.policy.name}, step {self.step} of {self.horizon}, budget left {self.budget_left:g})"


def _checksum(saved: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON text; numbers are written so that they read back exactly."""
    text = json.dumps(saved, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
