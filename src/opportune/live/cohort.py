"""`Cohort`: the participants of a study, live, with what they share: a budget, a model, both or neither."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.pointers import aligned
from opportune.errors import InputError, StateError
from opportune.live import point, saving, steps
from opportune.live.agent import Agent
from opportune.live.numbers import Numbers
from opportune.live.uninterrupted import uninterrupted
from opportune.policy import Policy
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem

MOST_PARTICIPANTS = 1_000_000


class Cohort:
    """A group of participants: `enrol` them, then `cohort["P001"].propose(...)` as with an Agent.

    Participants who share a budget decide in the order of their calls. Participant number i (from 0) has the stream
    that world i of `simulate` has in its first replicate, unless told otherwise.

    Args:
        problem: what is known beforehand, of all participants.
        policy: who recommends, who reveals; a shared budget is one for all, a pooled model is learned by all, and
            models that are pooled in part are brought closer by `update_prior`.
        horizon: decision points of each participant.
        seed: of the study.
        participants: how many are planned; a shared budget is for all their decisions.
        staff_of: another cohort, such as another arm's, whose nudges the same staff make.

    """

    def __init__(
        self, problem: Problem | ContinuousProblem, policy: Policy, *, horizon: int, seed: int, participants: int,
        staff_of: "Cohort | None" = None,
    ) -> None:  # fmt: skip
        if not isinstance(policy, Policy):
            raise InputError(f"policy is {checks.brief(policy)}; expected a Policy, such as pd2_ucb(budget=10)")
        self.problem = problem
        self.policy = policy
        self.horizon = checks.whole("horizon", horizon, least=1, most=checks.MOST_STEPS)
        self.seed = checks.seed("seed", seed)
        self.participants = checks.whole("participants", participants, least=1, most=MOST_PARTICIPANTS)
        self._agents: dict[str, Agent] = {}
        self.moved = False
        """Whether what all have in common is no longer the problem's prior."""
        alone = self._numbers()  # refuses what does not fit together, before anyone enrols
        self._constants = alone.constants  # the same for all who have this problem, and never changed
        together = {"model": policy.one_model, "budget": policy.shared, "staff": policy.capped}
        self._shared = {name: aligned(alone.at.length(name)) for name, shared in together.items() if shared}
        if staff_of is not None and "staff" in self._shared and "staff" in staff_of._shared:
            self._shared["staff"] = staff_of._shared["staff"]
        self.common = self._numbers(shared=self._shared, constants=self._constants)
        """The model arrays of a placeholder participant, who holds what all participants share."""
        steps.begin_live(self.common.handle, bool(policy.pooled), policy.shared, policy.capped)

    def _numbers(self, **settings: Any) -> Numbers:
        if not isinstance(self.problem, Problem | ContinuousProblem):
            raise InputError(f"problem is {checks.brief(self.problem)}; expected a Problem")
        horizon = point.check_horizon(self.problem, self.horizon)
        return Numbers(self.problem, self.policy, horizon=horizon, participants=self.participants, **settings)

    @property
    def budget_left(self) -> float:
        """The shared budget that is left; raises if each participant has a separate one."""
        if not self.policy.shared:
            raise StateError("each participant has a budget of its own; ask cohort[name].budget_left")
        return self.common.budget_left

    @uninterrupted
    def enrol(self, name: str, *, problem: Any = None, stream: int | None = None) -> Agent:
        """Enrol a participant, with a separate problem if the context distribution or bounds differ."""
        name = checks.text("name", name)
        if name in self._agents:
            raise StateError(f"{name!r} is enrolled already")
        if len(self._agents) >= self.participants:
            raise StateError(f"all {self.participants} planned participants are enrolled")
        number = len(self._agents)
        own = number << 32 if stream is None else checks.seed("stream", stream)
        taken = next((other for other, agent in self._agents.items() if agent.stream == own), None)
        if taken is not None:
            raise InputError(f"stream is {own}; {taken!r} has it already, and each participant needs its own")
        agent = self.seat(number, stream=own, problem=problem)
        self._agents[name] = agent
        return agent

    def seat(self, number: int, *, stream: int, problem: Any = None, seed: int | None = None) -> Agent:
        """Build the agent of participant `number` at its first decision; `enrol` also gives it a name.

        For a service that stores its participants itself and may give each a separate seed.
        """
        checks.whole("number", number, least=0, most=self.participants - 1)
        known = self.problem if problem is None else problem
        agent = Agent.seated(
            known, self.policy, horizon=self.horizon, seed=self.seed if seed is None else seed, stream=stream,
            participants=self.participants,
            member=number, shared=self._shared, constants=self._constants if known is self.problem else None,
        )  # fmt: skip
        alike = np.array_equal(agent.numbers.constants, self.common.constants, equal_nan=True)
        if self.policy.one_model and not alike:
            raise InputError(
                "the participant's problem differs from the cohort's; expected the same, as the model is pooled"
            )
        if self.policy.partial and not _have_one_prior(agent.numbers, self.common):
            raise InputError(
                "the participant's problem has other noise or another prior; expected the cohort's, as models are "
                "pooled in part"
            )
        agent.numbers.begin()
        if self.moved:
            steps.move_prior_live(agent.numbers.handle, self.common.handle, steps.TAKE, 0)
        return agent

    @uninterrupted
    def update_prior(self) -> None:
        """Update mu and tau, what all participants have in common, from everything learned so far (pooled="partial").

        In `simulate` this happens after every `partial_every` decision times; live you decide when, for example once a
        day. Advice already given stays in force until the next reveal.
        """
        if not self.policy.partial:
            raise StateError("the policy is not pooled in part; expected Policy(pooled='partial', ...)")
        self.bring_together(self._agents.values())

    def bring_together(self, agents: Iterable[Agent]) -> None:
        """Update mu and tau from these agents, in order; for a service that stores its participants itself."""
        everyone = [agent.numbers.handle for agent in agents]
        if everyone:
            steps.move_prior(everyone, [self.common.handle, *everyone], self.common.handle)
            self.moved = True

    @property
    def prior(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What all have in common: mu and tau, the mean and the sd of each effect (pooled="partial")."""
        known = self.common.at.unpadded("model", self.common.arrays["model"])
        noise = float(self.problem.noise_sd)
        return known["centre"].ravel().copy(), noise / np.sqrt(known["precision"].ravel())

    def withdraw(self, name: str) -> None:
        """Withdraw a participant: no more decisions can be made, and a shared budget no longer expects them."""
        self[name].withdraw()

    def __getitem__(self, name: str) -> Agent:
        if not isinstance(name, str) or name not in self._agents:
            known = checks.brief(list(self._agents)[:20])
            raise InputError(f"no participant is called {checks.brief(name)}; expected one of {known}")
        return self._agents[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._agents

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    def to_dict(self) -> dict[str, Any]:
        """The whole cohort as plain JSON values; `from_dict` resumes it exactly."""
        return saving.sealed(
            {
                "kind": "cohort",
                "problem": self.problem.to_dict(),
                "policy": self.policy.describe(),
                "horizon": self.horizon,
                "seed": self.seed,
                "participants": self.participants,
                "shared": saving.describe_state(self.common, self.common.shared),
                "prior": saving.describe_prior(self.common) if self.moved else None,
                "agents": {
                    name: {
                        "problem": None if agent.problem is self.problem else agent.problem.to_dict(),
                        **saving.describe_participant(agent),
                    }
                    for name, agent in self._agents.items()
                },
            }
        )

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Cohort":
        """The cohort that `to_dict` described, ready to go on as if it had never stopped."""
        content = saving.unsealed(saved, "cohort")
        with saving.careful():
            saving.must_know("the state", content, (*saving.HEAD, *saving.ABOUT_COHORT))
            cohort = cls(
                saving.restore_problem(content["problem"]), Policy.from_dict(content["policy"]),
                horizon=content["horizon"], seed=content["seed"], participants=content["participants"],
            )  # fmt: skip
            if content.get("prior") is not None:
                saving.restore_prior(cohort.common, content["prior"])
                cohort.moved = True
            for name, saved_agent in checks.mapping("agents", content["agents"], "{name: its state}").items():
                about = checks.mapping(f"state of {checks.brief(name)}", saved_agent, "what to_dict gave")
                saving.must_know(f"the state of {checks.brief(name)}", about, ("problem", *saving.ABOUT_PARTICIPANT))
                own_problem = None if about["problem"] is None else saving.restore_problem(about["problem"])
                own = checks.seed("stream", about["stream"])
                agent = cohort.enrol(name, problem=own_problem, stream=own)
                saving.restore_participant(agent, about)
            made = sum(agent.step for agent in cohort._agents.values())
            passed = sum(saving.passed(agent) for agent in cohort._agents.values())
            saving.restore_state(
                cohort.common, cohort.common.shared, content["shared"], cohort.problem, decisions=made, points=passed
            )
        return cohort

    def __reduce__(self) -> Any:
        """A copy, by `copy`, `pickle` or another process, is a cohort of its own."""
        return Cohort.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"Cohort({self.policy.name}, {len(self)} of {self.participants} participants)"


def _have_one_prior(one: Numbers, other: Numbers) -> bool:
    """Whether two participants are alike in what random effects have in common: noise and prior."""
    first, second = (numbers.at.unpadded("constants", numbers.constants) for numbers in (one, other))
    return all(np.array_equal(first[name], second[name]) for name in ("noise", "regularisation", "prior_mean"))
