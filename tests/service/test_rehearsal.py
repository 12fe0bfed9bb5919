"""What was simulated is what runs: the example study over HTTP, with simulate's draws, makes simulate's decisions."""

import math
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import xarray as xr
from servers import Parent, free_port, parent
from site_over_http import Site, good
from study_text import study_text

import opportune as op
from opportune.rehearsal.conditions import context_at, steps_late, stream_of
from opportune.service.accounts.keys import ROLES, add_key
from opportune.service.record.database import Database
from opportune.service.record.queries import decision_row
from opportune.service.server import launch
from opportune.service.service import Service
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify
from opportune.study import parse_study
from opportune.study.serving import live

PEOPLE, STEPS = 3, 40
WORLD = "reward_delay = 3\nreward_rate = 0.9\navailable_rate = 0.9\n"
SHARING: dict[str, dict[str, Any]] = {
    "own budgets, own models": {},
    "shared budget": {"shared": True},
    "pooled model": {"pooled": True},
    "shared hard budget, pooled model": {"shared": True, "pooled": True, "hard": True},
}
TRACED = {
    "probability": "probability", "gap": "gap", "price": "price", "disagreement": "disagreement",
    "tolerance": "tolerance", "nudged": "nudge", "revealed": "revealed", "available": "available",
}  # fmt: skip
ACTIONS = {"action": "action", "fresh_action": "fresh_action", "stale_action": "stale_action"}


def settings_of(sharing: str) -> dict[str, Any]:
    """The example study, smaller, with late, lost and missing things, and a range of values."""
    return {"budget": 6, "planned": PEOPLE, "horizon": STEPS, **SHARING[sharing]}


def rehearsed(text: str) -> str:
    """The study file with happenings, and with a range of values, which a live study cannot take from the truth."""
    return text.replace("[world]\n", f"[world]\n{WORLD}").replace("[reward]\n", "[reward]\nvalue_range = [-3, 4]\n")


def simulated(text: str) -> tuple[list[Any], xr.Dataset, int]:
    """The study's worlds, and what simulate makes of them with the policy that is served."""
    study = parse_study(text).replace(instances=PEOPLE)
    worlds = study.worlds()
    seed = study.settings.study.seed
    data = op.simulate(worlds, [live(study).policy], horizon=STEPS, replicates=1, seed=seed, trace=True, progress=False)
    return worlds, data.isel(policy=0, replicate=0), seed


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    """Where servers come from: processes of their own, with a port each."""
    with parent() as found:
        yield found


@pytest.mark.parametrize("sharing", SHARING)
def test_the_service_makes_the_decisions_of_simulate(url: str, servers: Parent, sharing: str) -> None:
    """Own and shared budgets, own and pooled models, unanswered nudges, openings, absences, late and lost rewards.

    Over HTTP, with a server in a process of its own, on either database.
    """
    text = rehearsed(study_text(**settings_of(sharing)))
    worlds, trace, seed = simulated(text)
    database = Database(url)
    launch(database, StudyInForce.from_text(text), rehearsal=True)
    keys = {role: add_key(database, f"{role} one", role) for role in ROLES}
    port = free_port()
    pid = servers.start(url, port)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
        site = Site(client, keys, Service(database))
        for number in range(PEOPLE):
            site.enrol(f"P{number}")
        mail: dict[tuple[int, int], list[str]] = {}
        for step in range(1, STEPS + 1):
            for number, world in enumerate(worlds):
                one_step(site, world, trace.isel(world=number), number, step, seed, mail)
    servers.kill(pid, signal.SIGTERM)
    assert float(trace["nudged"].sum()) >= 5, "the control: something was nudged"
    assert verify(database).findings == []
    database.close()


def one_step(
    site: Site, world: Any, trace: xr.Dataset, number: int, step: int, seed: int, mail: dict[tuple[int, int], list[str]]
) -> None:
    """One decision point of one participant: as it was met in the simulation, held to what was decided there."""
    at = {str(name): trace[name].values[step - 1] for name in trace.data_vars if "step" in trace[name].dims}
    seen, told = context_at(world, int(at["context"]), step, seed=seed, stream=stream_of(number))
    body: dict[str, Any] = {"sensed": seen, "reported": told, "opened": bool(at["opened"])}
    if not at["available"]:
        body |= {"available": False, "reason": "away"}
    made = good(site.post(f"participants/P{number}/decisions", body), 201)
    if made["status"] == "nudge":
        answered = bool(at["revealed"])
        made = good(site.post(f"decisions/{made['decision']}/answer", {"answered": answered}, "staff"))
    compare(site, world, at, made["decision"], step)
    if not math.isnan(at["reward"]):
        late = steps_late(world, step, seed=seed, stream=stream_of(number))
        mail.setdefault((number, step + late), []).append(f"{step:06d} {made['decision']}")
    for arrived in sorted(mail.pop((number, step), [])):
        earlier, decision = arrived.split()
        reward = float(trace["reward"].values[int(earlier) - 1])
        assert good(site.post(f"decisions/{decision}/reward", {"reward": reward}))["reward"] == reward


def compare(site: Site, world: Any, at: dict[str, Any], decision: str, step: int) -> None:
    """What was decided, to the last bit."""
    row = decision_row(site.service.database, decision)
    assert row is not None
    assert row["step"] == step
    names = world.problem.action_names
    expected = {column: at[name].item() for name, column in TRACED.items()}
    expected |= {column: names[int(at[name])] for name, column in ACTIONS.items()}
    assert {column: row[column] for column in expected} == expected, step
