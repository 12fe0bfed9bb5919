"""`opportune rehearse`: simulated participants on a real server make simulate's decisions, whatever interrupts them."""

import datetime as dt
import itertools
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from servers import Parent, free_port, parent
from study_text import study_text

from opportune.cli import main as cli
from opportune.client import Client, ServiceError
from opportune.rehearsal.access import HttpAccess, Write
from opportune.rehearsal.comparison import compare, why_not
from opportune.rehearsal.drive import Pace, Rehearsal
from opportune.rehearsal.people import People
from opportune.service.accounts.keys import ROLES, add_key
from opportune.service.record.database import Database
from opportune.service.server import launch
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify
from processes import COMMAND, Started, needs_linux

WORLD = "reward_delay = 3\nreward_rate = 0.9\navailable_rate = 0.9\n"
FIRST = dt.date(2031, 3, 3)
Run = Callable[..., tuple[int, str, str]]


def text_of(**settings: Any) -> str:
    """The example study, smaller, with late, lost and missing things."""
    settings = {"budget": 6, "planned": 3, "horizon": 40, "times": True, **settings}
    return study_text(**settings).replace("[world]\n", f"[world]\n{WORLD}").replace("= 28 ", "= 3 ")


class Place:
    """A study that is served in rehearsal."""

    def __init__(self, database: Database, address: str, file: Path, keys: dict[str, str]) -> None:
        self.database, self.address, self.file, self.keys = database, address, file, keys
        self.running = StudyInForce.from_file(file)

    def client(self, role: str = "admin") -> Client:
        """Someone who asks the service."""
        return Client(self.address, self.keys[role], attempts=2)


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    """Servers in rehearsal."""
    with parent("rehearsal") as found:
        yield found


@pytest.fixture
def serve(servers: Parent, tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Serve a study; the server ends with the test."""
    started = []

    def begin(database: Database, text: str) -> Place:
        file = tmp_path / "study.toml"
        file.write_text(text, encoding="utf-8")
        launch(database, StudyInForce.from_file(file), rehearsal=True)
        keys = {role: add_key(database, f"{role} one", role) for role in ROLES}
        port = free_port()
        started.append(servers.start(database.url.replace("+psycopg", ""), port))
        return Place(database, f"http://127.0.0.1:{port}", file, keys)

    yield begin
    for pid in started:
        servers.kill(pid, signal.SIGTERM)


@pytest.fixture
def rehearse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command at a place: its code, standard output and standard error."""

    def call(place: Place, *options: str, key: str = "admin") -> tuple[int, str, str]:
        options = ("--participants", "3", *options)
        monkeypatch.setenv("OPPORTUNE_KEY", place.keys[key])
        code = cli.run(["rehearse", str(place.file), "--url", place.address, *options])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("sharing", [{}, {"shared": True, "pooled": True, "hard": True}], ids=["own", "shared"])
def test_it_makes_the_decisions_of_simulate(
    sqlite: Database, serve: Callable[..., Place], rehearse: Run, sharing: dict[str, Any]
) -> None:
    """With staff played the service's decisions are simulate's, it says so, and the record verifies."""
    place = serve(sqlite, text_of(**sharing))
    code, out, err = rehearse(place, "--staff", "--days", "8")
    assert code == 0, err
    made = int(re.findall(r"decisions +(\d+)", out)[0])
    assert f"All {made} decisions equal those of simulate" in out
    assert made == (3 * 16 if sharing else 16 + 14 + 12), "those who share nothing begin one after the other"
    for row in ("calls", "answered", "rewards", "away"):
        assert int(re.findall(rf" {row} +(\d+)", out)[0]) > 0, row
    assert "p50" in out
    assert "p99" in out
    assert verify(sqlite).findings == []


REMEMBERING = {
    "known = true ": "known = false ",
    "[contexts]\n": "[variables.dose]\nhistory = { of = 'nudges', summary = 'sum', days = 3 }\nrange = [0, 6]\n\n"
    "[variables.recent]\nhistory = { of = 'reward', summary = 'mean', decisions = 4 }\nrange = [-3, 3]\n\n[contexts]\n",
    'action*stress"': 'action*stress + action*dose + action*recent"',
    '"*" = 0.0': '"action=breathe:dose" = -0.3\n"action=rest:recent" = 0.5\n"*" = 0.0',
    "[world]\n": "[world]\nhabituation = 0.6\nresponse_spread = 0.5\nspells = { rate = 0.05, days = 2 }\n",
    "[reward]\n": "[reward]\nbounds = [-3, 3]\n",
    "range = [0, 3] ": "persistence = 0.5\nrange = [0, 3] ",
}
"""What makes the participants of the example study remember, differ, wear out and go away."""


def test_people_who_remember_and_wear_out_are_rehearsed(
    sqlite: Database, serve: Callable[..., Place], rehearse: Run
) -> None:
    """Variables of one's own history, answers that wear off, spells away: the decisions are those of `simulate`."""
    text = text_of(budget=12)
    for old, new in REMEMBERING.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    place = serve(sqlite, text)
    code, out, err = rehearse(place, "--staff", "--days", "10")
    assert code == 0, err
    made = int(re.findall(r"decisions +(\d+)", out)[0])
    assert f"All {made} decisions equal those of simulate" in out
    assert int(re.findall(r" calls +(\d+)", out)[0]) > 2
    with place.client() as client, HttpAccess(client, in_order=False) as access:
        shown = [decision for name in ("P001", "P002", "P003") for decision in access.decisions(name)]
    assert len({decision["sensed"]["recent"] for decision in shown}) > 5
    assert max(decision["sensed"]["dose"] for decision in shown) > 0.0
    assert verify(sqlite).findings == []


def test_it_goes_on_postgresql_and_where_it_stopped(
    new_postgres: str, serve: Callable[..., Place], rehearse: Run
) -> None:
    """More days with the same command: what was decided stays, the rest is simulate's as well."""
    database = Database(new_postgres)
    place = serve(database, text_of())
    assert "All 12 decisions" in rehearse(place, "--staff", "--days", "3")[1]
    code, out, err = rehearse(place, "--staff", "--days", "6")
    assert code == 0, err
    assert "All 30 decisions equal those of simulate" in out
    code, out, _ = rehearse(place, "--staff", "--days", "6")
    assert code == 0
    assert "All 30 decisions" in out, "nothing is left to do"
    assert "per second" not in out
    assert verify(database).findings == []
    database.close()


def test_what_differs_from_simulate_is_said(sqlite: Database, serve: Callable[..., Place], rehearse: Run) -> None:
    """The control: a participant who is paused by someone meets another course, and the code is 1."""
    place = serve(sqlite, text_of())
    assert rehearse(place, "--staff", "--days", "2")[0] == 0
    with place.client() as client:
        client.set_status("P001", "paused", reason="holiday")
    code, _, err = rehearse(place, "--staff", "--days", "4")
    assert code == 1
    assert "P001, decision 5: available is False, simulated True" in err
    assert "decisions differ from simulate's" in err


class Shaky:
    """A access through which a request fails now and then, before or after it was carried out."""

    def __init__(self, access: HttpAccess, numbers: Iterator[int]) -> None:
        self._door, self._numbers = access, numbers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._door, name)

    def write(self, writes: Sequence[Write], at: dt.datetime) -> "list[dict[str, Any] | ServiceError]":
        """Do some of it."""
        number = next(self._numbers)
        if number % 3:
            return self._door.write(writes, at)
        self._door.write(writes[: number % 4], at)
        raise KeyboardInterrupt


@pytest.mark.parametrize("sharing", [{}, {"shared": True, "pooled": True}], ids=["own", "shared"])
def test_wherever_it_is_interrupted(sqlite: Database, serve: Callable[..., Place], sharing: dict[str, Any]) -> None:
    """Stopped in the middle of decisions, calls and rewards, again and again, it ends with simulate's decisions."""
    place = serve(sqlite, text_of(**sharing))
    running, numbers, stopped = place.running, itertools.count(), 0
    people = People(running, count=3, steps=16)
    with place.client() as client, HttpAccess(client, in_order=running.together) as access:
        while True:
            shaky: Any = Shaky(access, numbers)
            try:
                rehearsal = Rehearsal(running, shaky, people, count=3, days=6, first=FIRST, staff=True)
                rehearsal.run()
                break
            except KeyboardInterrupt:
                stopped += 1
        made = {member.number: list(access.decisions(member.name)) for member in rehearsal.members.values()}
    assert stopped > 10
    arms = dict.fromkeys(made, "")
    compared = compare(people, made, arms)
    assert compared == (36 if sharing else 30, [])
    made[0][3]["action"] = "another"  # the control
    assert len(compare(people, made, arms).differing) == 1
    assert verify(sqlite).findings == []


@needs_linux
def test_ctrl_c_ends_it_in_good_order(sqlite: Database, serve: Callable[..., Place], rehearse: Run) -> None:
    """One line says that the same command goes on, the code is 130; and it does go on."""
    place = serve(sqlite, text_of(horizon=20_000))
    options = ("rehearse", str(place.file), "--url", place.address, "--participants", "3", "--staff")
    folder, key = place.file.parent, place.keys["admin"]
    with Started(COMMAND, *options, "--days", "3000", cwd=folder, OPPORTUNE_KEY=key) as process:

        def begun() -> bool:
            with place.client() as client:
                return any(row["step"] >= 3 for row in client.pages("participants"))

        process.until(begun)
        process.interrupt()
        assert process.ended(within=20) == 130
        (said,) = [line for line in process.said() if "interrupted" in line]
        assert said.endswith("decisions made so far are on record; the same command resumes there")
    with place.client() as client:
        step = max(row["step"] for row in client.pages("participants"))
    code, out, err = rehearse(place, "--staff", "--days", str(step // 2 + 5))
    assert code == 0, err
    assert "equal those of simulate" in out


def test_without_staff_calls_are_left_to_people(sqlite: Database, serve: Callable[..., Place], rehearse: Run) -> None:
    """What nobody answers counts as unanswered at the next decision; what someone answers brings its own reward."""
    text = text_of(budget=30, policy="always").replace("[nudge]\n", "[nudge]\nanswer_minutes = 1440\n")
    place = serve(sqlite, text)
    code, out, _ = rehearse(place, "--days", "4")
    assert code == 0
    assert "Not compared with simulate: without --staff" in out
    with place.client("staff") as staff:
        (*_, call) = staff.pages("calls")
        answered = staff.answer(call["decision"], True, reported={"mood": "low"})
        assert rehearse(place, "--days", "6")[0] == 0
        made = list(staff.pages(f"participants/{call['participant']}/decisions"))
    outcomes = [decision["outcome"] for decision in made if decision["nudge"]]
    assert outcomes.count("answered") == 1
    assert "unanswered" in outcomes
    people, step = People(place.running, count=3, steps=12), call["step"]
    number = int(call["participant"][1:]) - 1
    assert made[step - 1]["action"] == answered.action
    assert made[step - 1]["reward"] == people.conditions(0).reward(number, step, answered.action)
    assert verify(sqlite).findings == []


def test_more_participants_than_were_thought_of(sqlite: Database, serve: Callable[..., Place], rehearse: Run) -> None:
    """Someone whom staff have enrolled takes a number; the others go on with theirs, as in simulate."""
    place = serve(sqlite, text_of(planned=5))
    with place.client() as client:
        client.enrol("someone-else")
    code, out, err = rehearse(place, "--staff", "--days", "5")
    assert code == 0, err
    assert "All 24 decisions equal those of simulate" in out


def test_more_participants_the_next_time(sqlite: Database, serve: Callable[..., Place], rehearse: Run) -> None:
    """Those who come later begin on the next day of the study, and make simulate's decisions as well."""
    place = serve(sqlite, text_of(planned=6))
    assert rehearse(place, "--staff", "--days", "3")[0] == 0
    code, out, err = rehearse(place, "--staff", "--days", "5", "--participants", "5")
    assert code == 0, err
    assert "All 28 decisions equal those of simulate" in out, "5, 4 and 3 days of three; the last day of two"


def test_study_time_goes_as_fast_as_was_said(sqlite: Database, serve: Callable[..., Place]) -> None:
    """At a factor the service is told what time it is, again and again, and nothing happens too early."""
    place = serve(sqlite, text_of())
    at, told = dt.datetime(2031, 3, 3, 9, tzinfo=dt.UTC), []
    with place.client() as client, HttpAccess(client, in_order=False) as access:

        def set_time(moment: dt.datetime) -> None:
            told.append(moment)
            access.set_time(moment)
            assert client.get("study")["now"].startswith(moment.isoformat()[:19])

        pace, begin = Pace(3600.0, set_time), time.monotonic()
        pace.until(at)  # from two seconds before
        pace.until(at + dt.timedelta(hours=1))
        assert 3.0 <= time.monotonic() - begin < 6.0
    assert told == sorted(told)
    assert at - dt.timedelta(hours=2) <= told[0] < at < told[-1] <= at + dt.timedelta(hours=1)


def test_at_a_speed_nothing_is_compared(sqlite: Database, serve: Callable[..., Place], rehearse: Run) -> None:
    """Two days at a hundred thousand times the clock's pace take two seconds, and the same decisions are made."""
    place, begin = serve(sqlite, text_of()), time.monotonic()
    code, out, err = rehearse(place, "--staff", "--days", "2", "--speed", "100000x")
    assert code == 0, err
    assert "Not compared with simulate: at this speed" in out
    assert time.monotonic() - begin > 1.0
    people = People(place.running, count=3, steps=4)
    with place.client() as client, HttpAccess(client, in_order=True) as access:
        made = {number: list(access.decisions(f"P00{number + 1}")) for number in range(2)}
    assert compare(people, made, dict.fromkeys(made, "")) == (6, [])


def test_in_a_rehearsal_only_admins_may_do_everything(place: Place) -> None:
    """Other roles may do what they always may: what staff and apps practise is what they will have."""
    for role, status in (("admin", 404), ("app", 404), ("staff", 403), ("analyst", 403)):
        with place.client(role) as client, pytest.raises(ServiceError) as refused:
            client.decide("nobody", {})
        assert refused.value.status == status, role


def test_when_decisions_cannot_be_compared(tmp_path: Path) -> None:
    """Another seed, another speed, people instead of staff that are played, or a budget for more participants."""
    people = People(StudyInForce.from_text(text_of(shared=True)), count=2, steps=4)
    assert why_not(people, staff=True, fast=True, count=3) is None
    assert "--staff" in str(why_not(people, staff=False, fast=True, count=3))
    assert "speed" in str(why_not(people, staff=True, fast=False, count=3))
    assert "shared" in str(why_not(people, staff=True, fast=True, count=2))
    people = People(StudyInForce.from_text(text_of(times=False)), count=2, steps=4)
    assert "wait_hours" in str(why_not(people, staff=True, fast=True, count=2))
    people = People(StudyInForce.from_text(text_of()), count=2, steps=4, seed=9)
    assert "seed" in str(why_not(people, staff=True, fast=True, count=2))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--participants", "0"], "--participants is 0; expected a whole number from 1 to"),
        (["--participants", "4"], "--participants is 4; expected a whole number from 1 to [participants] planned = 3"),
        (["--days", "0"], "--days is 0; expected"),
        (["--speed", "fast"], "--speed is 'fast'; expected max, or a factor such as 60x"),
        (["--speed", "0x"], "--speed is '0x'"),
        (["--seed", "-1"], "'--seed'"),
        (["--url", "localhost"], "--url is 'localhost'; expected the address of a service"),
        (["--url", "http://127.0.0.1:1"], "no service answers at http://127.0.0.1:1; expected one that was started"),
        (["--key", "opp_1"], "No such option: --key"),
        (["OPPORTUNE_KEY", ""], "no key is given; expected OPPORTUNE_KEY in the environment"),
        (["OPPORTUNE_KEY", "clé"], "the key contains characters that no key has; expected OPPORTUNE_KEY"),
        (["OPPORTUNE_KEY", "opp_wrong"], "the service does not know this key; expected one of role admin"),
        (["OPPORTUNE_KEY", "STAFF"], "the key's role is 'staff'; expected admin"),
    ],
)
def test_wrong_use(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    """One line says what was given and what was expected, and the code is 2; nobody is enrolled."""
    given = {"--participants": "3", "--days": "1", "--url": place.address}
    monkeypatch.setenv("OPPORTUNE_KEY", place.keys["admin"])
    name, value = options
    if name == "OPPORTUNE_KEY":
        monkeypatch.setenv(name, value.replace("STAFF", place.keys["staff"]))
    else:
        given |= {name: value}
    code = cli.run(["rehearse", str(place.file), *itertools.chain(*given.items())])
    err = capsys.readouterr().err
    assert code == 2, err
    assert len(err.splitlines()) == 1
    assert said in err
    with place.client() as client:
        assert list(client.pages("participants")) == []


@pytest.mark.parametrize(
    ("value", "said"),
    [("60x", "--speed is for rehearsals with --url"), ("fast", "--speed is 'fast'; expected max, or a factor")],
)
def test_a_speed_needs_a_service(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str, said: str) -> None:
    """Without --url a speed is refused before anything runs, and so is one that cannot be read."""
    (tmp_path / "study.toml").write_text(text_of(), encoding="utf-8")
    assert cli.run(["rehearse", str(tmp_path / "study.toml"), "--keep", str(tmp_path / "kept"), "--speed", value]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


@pytest.fixture(scope="module")
def place(servers: Parent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A study that is served in rehearsal, and nobody takes part."""
    folder = tmp_path_factory.mktemp("place")
    database = Database(f"sqlite:///{folder / 'study.db'}")
    file = folder / "study.toml"
    file.write_text(text_of(), encoding="utf-8")
    launch(database, StudyInForce.from_file(file), rehearsal=True)
    keys = {role: add_key(database, f"{role} one", role) for role in ROLES}
    port = free_port()
    pid = servers.start(database.url, port)
    yield Place(database, f"http://127.0.0.1:{port}", file, keys)
    servers.kill(pid, signal.SIGTERM)
    database.close()


def test_a_key_is_needed(place: Place, rehearse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the option or the environment; without one nothing is asked."""
    monkeypatch.delenv("OPPORTUNE_KEY", raising=False)
    options = ["rehearse", str(place.file), "--url", place.address, "--participants", "3"]
    assert cli.run(options) == 2
    monkeypatch.setenv("OPPORTUNE_KEY", "opp_wrong")
    assert cli.run(options) == 2
    _, _, err = rehearse(place, "--days", "0")
    assert [line.split(";")[0] for line in err.splitlines()] == [
        "opportune: error: no key is given",
        "opportune: error: the service does not know this key",
        "opportune: error: --days is 0",
    ]


def test_another_study_file_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that differs from the one that is served, one without a world, and one that is not there."""
    monkeypatch.setenv("OPPORTUNE_KEY", place.keys["admin"])
    options = ["--url", place.address, "--participants", "3"]
    other = tmp_path / "other.toml"
    other.write_text(text_of(budget=7), encoding="utf-8")
    blind = tmp_path / "blind.toml"
    text = re.sub(r"(?sm)^\[effects\]\n.*?\n\n", "", text_of())
    blind.write_text(text.replace("[reward]\n", "[reward]\ntheta_bound = 3.0\n"), encoding="utf-8")
    for file, said in (
        (other, "serves another study file"),
        (blind, "[effects] is missing"),
        (tmp_path / "none.toml", "does not exist"),
    ):
        code = cli.run(["rehearse", str(file), *options])
        err = capsys.readouterr().err
        assert code == 2
        assert said in err
        assert len(err.splitlines()) == 1


def test_a_service_with_patients_is_left_alone(
    sqlite: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A service that was not started with --rehearsal is refused; there an admin's key decides nothing."""
    file = tmp_path / "study.toml"
    file.write_text(text_of(), encoding="utf-8")
    launch(sqlite, StudyInForce.from_file(file))
    key, port = add_key(sqlite, "admin one", "admin"), free_port()
    with parent() as servers:
        servers.start(sqlite.url, port)
        address = f"http://127.0.0.1:{port}"
        monkeypatch.setenv("OPPORTUNE_KEY", key)
        code = cli.run(["rehearse", str(file), "--url", address, "--participants", "3"])
        err = capsys.readouterr().err
        assert code == 2
        assert "is not in rehearsal; expected one started with --rehearsal" in err
        with Client(address, key) as client:
            client.enrol("P001")
            with pytest.raises(ServiceError, match="forbidden"):
                client.decide("P001", {"time_of_day": "morning", "stress": 1, "sleep": "good"})
