"""Ctrl-C during a call of an agent: the call happens wholly or not at all, and is then interrupted."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import opportune as op
from live_examples import mixed_problem
from opportune.live import steps, uninterrupted

PACKAGE = str(Path(op.__file__).parent)
HERE = {"hour": "am", "place": 1}
STEP = 7  # between the lines at which calls are interrupted: one after the other takes long


def interrupted(call: Callable[[], Any], line: int) -> bool:
    """Make a call and press Ctrl-C before the package's line with this number is run; whether there was such a line."""
    seen = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            seen += 1
            if seen == line:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen >= line


def agent_at_work() -> op.Agent:
    """Rewards learned and pending, an unanswered nudge, and a proposal open."""
    policy = op.Policy(revealer=op.Always(), recommender=op.LinUCB(rotate=True), budget=op.Budget(20))
    agent = op.Agent(mixed_problem(known=False), policy, horizon=30, seed=1, stream=4)
    for i in range(6):
        agent.propose({**HERE, "place": i % 2}, reported={"mood": "abc"[i % 3]})
        agent.settle(i % 3 == 0)
        if i < 4:
            agent.learn(0.2 * i)
    agent.propose(HERE)
    return agent


CALLS: dict[str, Callable[[op.Agent], Any]] = {
    "propose": lambda agent: agent.propose(HERE, reported={"mood": "b"}),
    "settle": lambda agent: agent.settle(True, reported={"mood": "c"}),
    "decide": lambda agent: agent.decide({**HERE, "mood": "a"}),
    "learn": lambda agent: agent.learn(0.7, step=6),
    "skip": lambda agent: agent.skip(5),
    "correct": lambda agent: agent.correct(-0.4, step=1),
    "answer_late": lambda agent: agent.answer_late(6, {"mood": "b"}),
    "withdraw": lambda agent: agent.withdraw(),
}


@pytest.fixture
def python_hears() -> Iterator[None]:
    """Ctrl-C is KeyboardInterrupt here, whoever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def outcomes(call: Callable[[op.Agent], Any]) -> dict[str, int]:
    """How often, interrupted anywhere, a call happened wholly, not at all, or something in between."""
    whole = agent_at_work()
    untouched = whole.to_dict()
    call(whole)
    finished = whole.to_dict()
    assert finished != untouched
    found = {"wholly": 0, "not at all": 0, "in between": 0}
    line, reached = 1, True
    while reached:
        agent = op.Agent.from_dict(untouched)
        try:
            reached = interrupted(lambda agent=agent: call(agent), line)  # type: ignore[misc]
            assert not reached, "an interrupt was lost"
        except KeyboardInterrupt:
            after = agent.to_dict()
            found["wholly" if after == finished else "not at all" if after == untouched else "in between"] += 1
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        line += 1 if line < 30 else STEP
    return found


@pytest.mark.usefixtures("python_hears")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_happens_wholly_or_not_at_all(call: Callable[[op.Agent], Any]) -> None:
    """Wherever in it Ctrl-C is pressed: it is raised, and the agent can be saved and resumed."""
    found = outcomes(call)
    assert found["in between"] == 0
    assert found["wholly"] > 3
    assert found["not at all"] > 0  # pressed before anything was begun


@pytest.mark.usefixtures("python_hears")
def test_without_protection_calls_stay_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: where interrupts are not held back, some leave an agent that is neither."""
    monkeypatch.setattr(uninterrupted, "_waits", True)
    assert outcomes(CALLS["settle"])["in between"] > 0


@pytest.mark.usefixtures("python_hears")
def test_an_interrupt_in_compiled_code_waits_for_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed while the step functions run, when the budget is charged and nothing is noted yet."""
    agent, steady = agent_at_work(), agent_at_work()
    propose = steps.propose_live

    def pressed(*arguments: Any) -> None:
        propose(*arguments)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(steps, "propose_live", pressed)
    with pytest.raises(KeyboardInterrupt):
        agent.propose(HERE)
    monkeypatch.undo()
    steady.propose(HERE)
    assert agent.to_dict() == steady.to_dict()
    resumed = op.Agent.from_dict(agent.to_dict())
    assert resumed.settle(True) == agent.settle(True) == steady.settle(True)


@pytest.mark.usefixtures("python_hears")
def test_an_interrupted_enrolment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A participant is enrolled or not; what is shared stays as it was."""
    cohort = op.Cohort(
        mixed_problem(known=True), op.pd2_ucb(op.Budget(5, shared=True)), horizon=9, seed=1, participants=3
    )
    cohort.enrol("ann").propose(HERE)
    begin = steps.begin_live

    def pressed(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        begin(*arguments)

    monkeypatch.setattr(steps, "begin_live", pressed)
    with pytest.raises(KeyboardInterrupt):
        cohort.enrol("bob")
    monkeypatch.undo()
    assert list(cohort) == ["ann", "bob"]
    assert op.Cohort.from_dict(cohort.to_dict()).to_dict() == cohort.to_dict()


@pytest.mark.usefixtures("python_hears")
def test_an_error_is_raised_all_the_same() -> None:
    """A call that is refused is refused, and Ctrl-C works as before afterwards."""
    agent = agent_at_work()
    with pytest.raises(op.InputError):
        agent.learn(float("nan"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("python_hears")
def test_whoever_handles_interrupts_handles_them_once_after_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of one's own finds a whole agent; one that ignores interrupts is left alone."""
    agent = agent_at_work()
    settle = steps.settle_live

    def pressed(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return settle(*arguments)

    monkeypatch.setattr(steps, "settle_live", pressed)
    open_then = []
    signal.signal(signal.SIGINT, lambda number, frame: open_then.append(agent.open_proposal))
    agent.settle(False)
    assert open_then == [None], "handled once, when nothing is open any more"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agent.propose(HERE)
    agent.settle(False)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert len(open_then) == 1


def test_other_threads_decide_without_touching_signals() -> None:
    """Python hands interrupts to the main thread; a handler could not be set elsewhere."""
    agent, found = agent_at_work(), []

    def work() -> None:
        agent.settle(False)
        found.append(agent.propose(HERE).step)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [8]
