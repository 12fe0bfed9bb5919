"""What revealers, recommenders and worlds declare lies where they declare it, whoever takes part beside them."""

from typing import Any

import numpy as np
import pytest
from test_layout import check_no_overlap, check_written, compiled_writer

import opportune as op
from live_examples import brushing_worlds, mixed_worlds, moment_worlds
from opportune.engine.attributes import OWNERS
from opportune.engine.declared import ARRAY_OF, GROUPS, Owner, parts_of
from opportune.engine.layout import Layout
from opportune.policy import layout_for, rule_for
from opportune.simulation import pack as packing
from opportune.simulation.pack import SAME, layouts_for, pack
from opportune.worlds import in_numbers, owner_of

HORIZON = 30
REVEALERS: list[op.Revealer] = [
    op.LearningPrimalDual(), op.PrimalDual(), op.FixedRate(), op.Periodic(every=4), op.Never(), op.Always(),
    op.Pace(guard=0.5),
]  # fmt: skip
RECOMMENDERS: list[op.Recommender] = [
    op.LinUCB(rotate=True), op.Thompson(), op.FixedAction(action=1), op.EqualCoins(), op.LinUCB(),
]  # fmt: skip
COURSE = np.random.default_rng(1).dirichlet(np.ones(12), size=7)


def drifting(world: op.LinearWorld) -> op.DriftingWorld:
    """A world whose contexts come by rows that change."""
    return op.DriftingWorld.drift(world, course=COURSE, stay=0.4)


MOODS = op.Problem.from_formula("action * mood", {"mood": ["low", "high"]}, 2, [0.5, 0.5])
WORLDS: dict[str, list[Any]] = {
    "linear": mixed_worlds(known=True, problems=1, reward_delay=2),
    "linear, p unknown": mixed_worlds(known=False, problems=1),
    "drifting": [drifting(world) for world in mixed_worlds(known=True, problems=1)],
    "continuous": moment_worlds(reported=True),
    "brushing": brushing_worlds(),
    "log": [op.ResampledWorld(MOODS, {"mood": ["low", "high"] * 2, "action": ["0", "0", "1", "1"], "reward": range(4)},
                              least=1)],
    "step counts": [op.StepCountWorld()],
}  # fmt: skip


def policies(*, shared: bool = False) -> list[op.Policy]:
    """Every revealer, with recommenders taking turns; every recommender."""
    number = max(len(REVEALERS), len(RECOMMENDERS))
    return [
        op.Policy(
            revealer=REVEALERS[i % len(REVEALERS)], recommender=RECOMMENDERS[i % len(RECOMMENDERS)],
            budget=op.Budget(3.0, shared=shared), name=f"policy {i}",
        )
        for i in range(number)
    ]  # fmt: skip


def layout_of(policy: op.Policy, worlds: list[Any]) -> Layout:
    (at,) = layouts_for(worlds, [policy], HORIZON, "cpu")
    return at


def test_whoever_is_registered_takes_part() -> None:
    """The tests below are about every rule and world of the package."""
    tried: dict[str, set[Any]] = {
        "revealer": {type(each) for each in REVEALERS},
        "recommender": {type(each) for each in RECOMMENDERS},
        "world": {type(each[0]) for each in WORLDS.values()},
    }
    for kind, registry in OWNERS.items():
        assert tried[kind] >= {entry for entry in registry if entry.__module__.startswith("opportune.")}


def writer_for(kind: str, entry: Any) -> tuple[Any, list[tuple[str, str]]]:
    """Compiled code that writes to everything that an entry of a registry declares."""
    groups = [group for group in GROUPS if group.startswith(f"{kind}.")]
    parts = [(group, part) for group in groups for part in parts_of(getattr(entry.declares, group.split(".")[1]))]
    owned = [(group.replace(kind, f"{kind}_{entry.number}"), part) for group, part in parts]
    return compiled_writer(owned), parts


ENTRIES = [(kind, entry) for kind, registry in OWNERS.items() for entry in registry]


@pytest.mark.parametrize(("kind", "entry"), ENTRIES, ids=[entry.__name__ for _, entry in ENTRIES])
def test_compiled_code_sees_what_is_declared(kind: str, entry: Any) -> None:
    """`own.state.debt[0]` in compiled code, in plain Python and by `views` are one number, in every company."""
    writer, parts = writer_for(kind, entry)
    for worlds in WORLDS.values():
        for policy in policies(shared=True):
            present = {"revealer": policy.revealer, "recommender": policy.recommender, "world": worlds[0]}[kind]
            if type(present) is entry:
                check_written(layout_of(policy, worlds), writer, parts)


@pytest.mark.parametrize("worlds", WORLDS.values(), ids=WORLDS)
def test_owned_groups_do_not_overlap_with_others(worlds: list[Any]) -> None:
    """No number of an array belongs to two parts, and none to no part."""
    for shared in (False, True):
        for policy in policies(shared=shared):
            check_no_overlap(layout_of(policy, worlds))


def sizes_of(at: Layout, group: str) -> dict[str, int]:
    """How many numbers each part of a group has, without padding."""
    return {name: part.size for name, part in at.unpadded(group, np.zeros(at.length(ARRAY_OF[group]))).items()}


def test_pace_has_the_room_that_its_page_says() -> None:
    """A row of ranks for each of 2 sharers: 4 sensed parts (hour and place), or 64 recent moments and this one."""
    pace = op.Policy(revealer=op.Pace(), recommender=op.Thompson(), budget=op.Budget(3, shared=True))
    known, unknown, moments = (layout_of(pace, WORLDS[w]) for w in ("linear", "linear, p unknown", "continuous"))
    unlearned = dict.fromkeys(("evidence", "asked_ever", "asked", "answers", "rate", "stratum"), 0)
    assert sizes_of(known, "revealer.shared") == {"guard_price": 1, "guard_spent": 1, "gain": 8, "odds": 8, **unlearned}
    assert sizes_of(moments, "revealer.shared") == {
        "guard_price": 1, "guard_spent": 1, "gain": 130, "odds": 130, **unlearned,
    }  # fmt: skip
    unused = (
        "presence",
        "presence_step",
        "asked_at",
        "asked_count",
        "person_answers",
        "person_asked",
        "recent_forbidden",
    )

    single = {**dict.fromkeys(unused, 0), "debt": 1, "share": 1, "unanswered": 1, "wait": 1, "recent_count": 1}
    assert sizes_of(known, "revealer.state") == {**single, "tally": 0, "recent": 0, "recent_stratum": 0}
    assert sizes_of(unknown, "revealer.state") == {**single, "tally": 4, "recent": 0, "recent_stratum": 0}
    block = moments.sizes.actions * moments.sizes.d
    assert sizes_of(moments, "revealer.state") == {
        **single, "tally": 0, "recent": 64 * block, "recent_stratum": 64,
    }  # fmt: skip
    assert sizes_of(known, "revealer.scratch") == {
        "base": 2, "greedy": 2, "weight": 0, "presence": 0, "usual": 0, "weighed": 0,
    }  # fmt: skip
    learning = op.Policy(revealer=op.Pace(response=True), budget=op.Budget(3, shared=True))
    answering = layout_of(learning, WORLDS["linear"])
    assert sizes_of(answering, "revealer.shared")["asked"] == 7 * 2, "seven hypotheses, two strata"
    assert sizes_of(answering, "revealer.state")["asked_at"] == 10, "the latest nudges"
    assert sizes_of(known, "recommender.state") == {"root": 4 * 4}
    assert sizes_of(known, "recommender.scratch") == {"theta": 4, "gram": 0, "mean": 0, "root": 0}


def test_worlds_have_the_room_that_their_truth_takes() -> None:
    """12 contexts, 3 actions, 2 public strata; a course of 7 rows; the schedule of mornings and evenings."""
    policy = op.pd2_ucb(3)
    drifting = layout_of(policy, WORLDS["drifting"])
    truth = {"noise_sd": 1, "value": 36, "best": 12, "blind": 6, "period": 1}
    assert sizes_of(drifting, "world.settings") == {**truth, "slot_of": 7, "cumulative": 7 * 12, "stay": 1}
    assert sizes_of(drifting, "lately") == {"nudged": 0, "nudges": 1, "context": 1}
    linear, lasting = layout_of(policy, WORLDS["linear"]), {"persisting": 1, "stays": 0, "level": 0}
    assert sizes_of(linear, "world.settings") == {**truth, "slot_of": 1, "cumulative": 12, **lasting}
    assert sizes_of(linear, "world.state") == {}
    assert sizes_of(linear, "mail")["due"] == 3
    assert sizes_of(drifting, "mail")["due"] == 0


def test_settings_stand_where_their_names_say() -> None:
    """A rule in numbers has each owner's settings under the owner's names."""
    for policy in policies():
        problem = WORLDS["linear"][0].informed_problem()
        at = layout_for(policy, problem, horizon=HORIZON)
        rule = rule_for(policy, problem, at, horizon=HORIZON)
        assert at.views("rule", rule).revealer[0] == policy.revealer.number
        assert at.views("rule", rule).recommender[0] == policy.recommender.number
        if isinstance(policy.revealer, op.Pace):
            assert at.views("revealer.settings", rule).guard[0] == 0.5
        if isinstance(policy.revealer, op.Periodic):
            assert at.views("revealer.settings", rule).every[0] == 4.0
        if isinstance(policy.recommender, op.LinUCB):
            assert at.sizes.rotating == policy.recommender.rotate
        if isinstance(policy.recommender, op.FixedAction):
            assert at.views("recommender.settings", rule).action[0] == 1.0
    for worlds in WORLDS.values():
        at = layout_of(op.pd2_ucb(3), worlds)
        numbers = in_numbers(worlds[0], at)
        assert at.views("happenings", numbers).kind[0] == worlds[0].number
        for name, expected in worlds[0].numbers().items():
            part = at.unpadded("world.settings", numbers)[name]
            np.testing.assert_array_equal(part.ravel(), np.ravel(expected))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("worlds", WORLDS.values(), ids=WORLDS)
def test_policies_of_one_simulation_agree_where_constants_and_worlds_lie(worlds: list[Any], device: str) -> None:
    """What is packed once can be read under the layout of every policy."""
    layouts = layouts_for(worlds, policies(), HORIZON, device)
    assert len(set(layouts)) > 1, "the control: they do not all have the same layout"
    for group in SAME:
        assert len({at.places_of(group) for at in layouts}) == 1
    pack(worlds, policies(), HORIZON, device)


def test_policies_that_do_not_agree_are_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a second policy under whose layout the world would lie elsewhere."""
    worlds = WORLDS["linear"]

    def elsewhere(*given: Any) -> list[Layout]:
        first, *others = layouts_for(*given)
        owner = owner_of(worlds[0])
        moved = Owner(owner.declares, tuple((name, size + 8) for name, size in owner.extents))
        return [first, *(at.with_owners(at.owners._replace(world=moved)) for at in others)]

    monkeypatch.setattr(packing, "layouts_for", elsewhere)
    pack(worlds, policies()[:1], HORIZON)
    with pytest.raises(AssertionError, match="lay out constants and worlds differently"):
        pack(worlds, policies(), HORIZON)
