"""The list of participants, and one participant with everything that happened."""

import math
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from sqlalchemy import func, select

from opportune.service.accounts.keys import ADMIN, ANALYST, STAFF
from opportune.service.api.reads import participant_details
from opportune.service.api.requests import PAGE, known_decision, known_name, roles
from opportune.service.commands.base import NOT_ASKED
from opportune.service.commands.participants import Enrol, Note, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.pages import reasons, timeline, words
from opportune.service.pages.forms import Wrong, command_fields, form_of
from opportune.service.pages.questions import baseline_questions
from opportune.service.pages.refusals import stays_on
from opportune.service.pages.shared import Asked, Page, View, carry_out, go, in_thread, view_of
from opportune.service.problems import Refused
from opportune.service.record import events, queries, tables
from opportune.service.state import clock
from opportune.service.state.participant import ACTIVE, COMPLETED, PAUSED, STATUSES, WITHDRAWN
from opportune.service.state.projection import known_of
from opportune.service.state.schedule import day_of

READERS = roles(STAFF, ANALYST, ADMIN) | PAGE
WRITERS = roles(STAFF, ADMIN) | PAGE
CALLERS = roles(STAFF) | PAGE
PER_PAGE = 100
DECISIONS_SHOWN = 60
EVENTS_SHOWN = 100
LARGEST_NUMBER = 2**31 - 1
SORTS = ("participant", "status", "day", "nudges", "age", "last")
Sort = Annotated[str, QueryParameter(name="sort", max_length=20)]
PageNumber = Annotated[int, QueryParameter(name="page", ge=1, le=100_000)]
Done = Annotated[str, QueryParameter(name="done", max_length=40)]
All = Annotated[int, QueryParameter(name="all", ge=0, le=1)]


def late(view: View) -> int:
    """The time before which missing results are overdue: a day ago, or half of the reward window if that is longer."""
    return view.now - max(24 * clock.HOUR, view.running.reward_window // 2)


def _missing_results(view: View, name: str | None = None) -> dict[str, int]:
    table = tables.decisions
    query = (
        select(table.c.participant, func.count())
        .where(table.c.reward_due.is_not(None), table.c.happened < late(view))
        .group_by(table.c.participant)
    )
    if name is not None:
        query = query.where(table.c.participant == name)
    with view.service.database.reading.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def _nudges(view: View, name: str | None = None) -> dict[str, int]:
    """The number of nudges of each participant, where the budget is shared and not counted by participant."""
    table = tables.decisions
    query = select(table.c.participant, func.count()).where(table.c.nudge).group_by(table.c.participant)
    if name is not None:
        query = query.where(table.c.participant == name)
    if view.study["amount"] is None:
        return {}
    with view.service.database.reading.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def _judged(view: View, row: dict[str, Any], missing: dict[str, int], nudges: dict[str, int]) -> dict[str, Any]:
    """A participant's row with the values for sorting and filtering."""
    silent = row["status"] == ACTIVE and row["step"] < view.running.horizon
    silent = silent and view.now - (row["last_decided"] or row["enrolled"]) > view.running.silence
    until = view.now if row["status"] in {ACTIVE, PAUSED} else row["last_decided"] or row["enrolled"]
    contact = row["last_reveal"]
    return {
        **row,
        "nudges": nudges.get(row["name"], row["nudges"]),
        "day": day_of(until, row["began"], row["timezone"]),
        "age": None if contact is None else words.days_between(contact, view.now, row["timezone"]),
        "silent": silent,
        "missing": missing.get(row["name"], 0),
    }


def _worded(view: View, row: dict[str, Any]) -> dict[str, Any]:
    """A participant's row with the texts that the pages show."""
    decided, timezone = row["last_decided"], row["timezone"]
    left = participant_details(row, dict(view.study))["budget_left"]
    if left is not None and view.blind:  # two looks would reveal the probability of a decision between them
        left = math.floor(left)
    return {
        **row,
        "left": left,
        "called": view.running.spends(row["arm"]),
        "own": view.study["amount"] is None,
        "last_data": None if decided is None else view.both(decided, timezone),
    }


def shows_left(view: View) -> bool:
    """Whether to show the calls left; with arms they would reveal the arm to blinded staff."""
    return not (view.blind and view.running.study.settings.arms)


def overview(view: View, row: dict[str, Any]) -> dict[str, Any]:
    """One participant as their own page shows them."""
    name = row["name"]
    return _worded(view, _judged(view, row, _missing_results(view, name), _nudges(view, name)))


def _ordered(found: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    never = math.inf
    keys: dict[str, Any] = {
        "participant": lambda row: row["name"],
        "status": lambda row: (STATUSES.index(row["status"]), row["name"]),
        "day": lambda row: (-row["day"], row["name"]),
        "nudges": lambda row: (-row["nudges"], row["name"]),
        "age": lambda row: (-(never if row["age"] is None else row["age"]), row["name"]),
        "last": lambda row: (row["last_decided"] or 0, row["name"]),
    }
    return sorted(found, key=keys[sort])


def _listed(view: View, *, sort: str = "", page: int = 1, search: str = "", status: str = "", overdue: bool = False,
            done: str = "") -> Page:  # fmt: skip
    sort = sort if sort in SORTS else SORTS[0]
    missing, nudges = _missing_results(view), _nudges(view)
    rows = queries.rows(view.service.database, select(*tables.PARTICIPANT))
    found = [_judged(view, row, missing, nudges) for row in rows]
    counts = {name: sum(row["status"] == name for row in found) for name in STATUSES}
    chosen = [
        row for row in found
        if search.lower() in row["name"].lower() and status in {"", row["status"]}
        and (not overdue or row["silent"] or row["missing"])
    ]  # fmt: skip
    pages = max(1, math.ceil(len(chosen) / PER_PAGE))
    page = min(page, pages)
    shown = _ordered(chosen, sort)[(page - 1) * PER_PAGE : page * PER_PAGE]
    worded = [_worded(view, row) for row in shown]
    return view.show(
        "participants.html", rows=worded, total=len(chosen), counts=counts, page=page, pages=pages, sort=sort,
        sorts=SORTS, search=search, status=status, overdue=overdue, done=done, planned=view.running.participants,
        plain=not (search or status or overdue), baseline=baseline_questions(view.running),
        show_left=shows_left(view), may_enrol=_may_enrol(view),
    )  # fmt: skip


def _may_enrol(view: View) -> bool:
    """Whether the viewer may enrol participants; in a study with arms, nobody who sees the arms may."""
    concealed = view.running.study.settings.arms is None or view.blind or bool(view.study["rehearsal"])
    return view.session.caller.role in {STAFF, ADMIN} and concealed


@get("/participants", opt=READERS, sync_to_thread=True, include_in_schema=False)
def list_participants(request: Asked, sort: Sort = "", page: PageNumber = 1, done: Done = "") -> Page:
    """The list of all participants."""
    return _listed(view_of(request), sort=sort, page=page, done=done)


@post("/participants", opt=READERS, include_in_schema=False, status_code=200)
async def find_participants(request: Asked) -> Page:
    """Search and filter the list; by POST, because names must not appear in addresses."""
    form = await form_of(request)
    search, status, sort = form.text("search", most=64), form.text("status", most=20), form.text("sort", most=20)
    overdue, page = form.text("overdue", most=5) == "yes", form.text("page", most=6) or "1"
    view = await in_thread(view_of, request)
    number = int(page) if page.isdecimal() and int(page) > 0 else 1
    return await in_thread(
        lambda: _listed(
            view, sort=sort, page=number, search=search, status=status if status in STATUSES else "", overdue=overdue
        )
    )


@post("/participants/enrol", opt=WRITERS, include_in_schema=False, status_code=200)
@stays_on(lambda view, form: _listed(view))
async def enrol(request: Asked) -> Response[Any]:
    """Enrol a new participant."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    name = form.required("participant", most=64)
    try:
        known_name(name)
    except Refused:
        raise Wrong("participant", "pseudonym") from None
    timezone = form.zone("timezone")
    baseline = {question.variable: question.read(form, view.t) for question in baseline_questions(view.running)}
    fields = command_fields(view, form)
    await carry_out(view, Enrol(participant=name, timezone=timezone or None, baseline=baseline, **fields))
    row = await in_thread(queries.participant_row, view.service.database, name)
    assert row is not None
    return go(f"/participants/{row['number']}?done=enrolled")


def row_of(view: View, number: int) -> dict[str, Any]:
    """A participant's row by number, because pseudonyms must not appear in addresses."""
    if number > LARGEST_NUMBER:
        raise Refused("not_found", "no participant has this number")
    found = queries.rows(
        view.service.database, select(*tables.PARTICIPANT).where(tables.participants.c.number == number)
    )
    if not found:
        raise Refused("not_found", "no participant has this number")
    return found[0]


def _why(view: View, decisions: list[dict[str, Any]], place: int, because: reasons.Because | None) -> str:
    """The reason for a call, with what was known then."""
    row = decisions[place]
    if not row["nudge"]:
        return ""
    reveal = next((one["happened"] for one in reversed(decisions[:place]) if one["revealed"]), None)
    days = None if reveal is None else words.days_between(reveal, row["happened"], row["timezone"])
    return reasons.why(view.running, row, because, days, view.t)


def _decision(
    view: View, decisions: list[dict[str, Any]], place: int, because: reasons.Because | None
) -> dict[str, Any]:
    """A decision's row with the texts that the page shows."""
    row = decisions[place]
    sensed = {} if row["reason"] == NOT_ASKED else msgspec.json.decode(row["sensed"])
    known = known_of(row)
    values = {**sensed, **(msgspec.json.decode(known) if known is not None else {})}
    return {
        **row,
        "at": view.both(row["happened"], row["timezone"]),
        "summary": words.outcome(row, _why(view, decisions, place, because), view.t),
        "advice": words.action_label(view.running, row["action"]),
        "corrected": _corrected(view, row),
        "values": words.listed(view.running, values, view.t),
    }  # fmt: skip


def _corrected(view: View, row: dict[str, Any]) -> str:
    """The corrected values of a decision, in words; empty without a correction."""
    found = []
    if row["outcome_corrected"] is not None:
        found.append(words.became(row["outcome_corrected"], view.t))
    if row["reported_corrected"] is not None and known_of(row) is not None:
        found.append(words.listed(view.running, msgspec.json.decode(row["reported_corrected"]), view.t))
    return "; ".join(found)


def _event(view: View, row: dict[str, Any], timezone: str) -> dict[str, Any]:
    event = events.decode(row["body"])
    given = event.given
    more = f" ({words.adverse(given, view.t)})" if event.kind == events.ADVERSE else ""
    text = given.get("text") or given.get("reason") or words.cause(str(given.get("cause", "")), view.t)
    return {
        "seq": event.seq, "kind": event.kind, "who": view.named(event.who), "step": event.step,
        "text": str(text) + more, "status": given.get("status"), "reward": given.get("reward"), "was": given.get("was"),
        "at": view.both(row["received"], timezone),
    }  # fmt: skip


@get("/participants/{number:int}", opt=READERS, sync_to_thread=True, include_in_schema=False)
def show_participant(request: Asked, number: FromPath[int], done: Done = "", everything: All = 0) -> Page:
    """One participant: what happened and why."""
    return _page(view_of(request), number, done=done, everything=bool(everything))


def _page(view: View, number: int, *, done: str = "", everything: bool = False) -> Page:
    row = row_of(view, number)
    database, table = view.service.database, tables.decisions
    decisions = queries.rows(database, select(table).where(table.c.participant == row["name"]).order_by(table.c.step))
    record = tables.events
    query = select(record).where(record.c.participant == row["name"])
    noted = queries.rows(database, query.where(record.c.kind == events.NOTED).order_by(record.c.seq))
    people = query if everything else query.where(record.c.kind.not_in([events.PROPOSED, events.REWARDED]))
    latest = queries.rows(database, people.order_by(record.c.seq.desc()).limit(EVENTS_SHOWN))
    first = 0 if everything else max(0, len(decisions) - DECISIONS_SHOWN)
    unit = view.running.study.settings.reward.unit
    because = queries.occasions(database, [one["id"] for one in decisions[first:] if one["nudge"]])
    shown = [
        _decision(view, decisions, place, because.get(decisions[place]["id"]))
        for place in reversed(range(first, len(decisions)))
    ]
    return view.show(
        "participant.html", p=overview(view, row), unit=unit, everything=everything, done=done,
        enrolled=view.both(row["enrolled"], row["timezone"]), picture=timeline.picture(view, row, decisions, noted),
        decisions=shown,
        hidden_count=first, show_left=shows_left(view), record=[_event(view, one, row["timezone"]) for one in latest],
    )  # fmt: skip


@get("/participants/{number:int}/{change:str}", opt=WRITERS, sync_to_thread=True, include_in_schema=False)
def confirm(request: Asked, number: FromPath[int], change: FromPath[str]) -> Page:
    """The form that changes the status of a participant."""
    return _status_page(view_of(request), number, change)


def _status_page(view: View, number: int, change: str) -> Page:
    row = row_of(view, number)
    if change not in STATUSES:
        raise Refused("not_found", "there is no such page")
    return view.show("confirm.html", p=row, change=change)


@post("/participants/{number:int}/status", opt=WRITERS, include_in_schema=False, status_code=200)
@stays_on(lambda view, form, number: _status_page(view, number, form.text("status")))
async def set_status(request: Asked, number: FromPath[int]) -> Response[Any]:
    """Pause, resume, withdraw or complete a participant."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    row = await in_thread(row_of, view, number)
    status, reason = form.choice("status", STATUSES), form.text("reason", most=500).replace("\n", " ") or None
    if status in {WITHDRAWN, PAUSED} and reason is None:
        raise Wrong("reason", "empty")
    if status in {WITHDRAWN, COMPLETED} and form.text("sure", most=5) != "yes":
        raise Wrong("sure", "unconfirmed")
    command = SetStatus(participant=row["name"], status=status, reason=reason, **command_fields(view, form))
    await carry_out(view, command)
    return go(f"/participants/{number}?done={status}")


@post("/participants/{number:int}/note", opt=CALLERS, include_in_schema=False, status_code=200)
@stays_on(lambda view, form, number: _page(view, number))
async def add_note(request: Asked, number: FromPath[int]) -> Response[Any]:
    """Add a note to the record."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    row = await in_thread(row_of, view, number)
    await carry_out(view, Note(participant=row["name"], text=form.required("text"), **command_fields(view, form)))
    return go(f"/participants/{number}?done=noted")


@post("/participants/{number:int}/reward", opt=CALLERS, include_in_schema=False, status_code=200)
@stays_on(lambda view, form, number: _page(view, number, everything=True))
async def correct(request: Asked, number: FromPath[int]) -> Response[Any]:
    """Record a result by hand, or correct one."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    low, high = view.running.study.settings.reward.bounds or (-math.inf, math.inf)
    decision = known_decision(form.required("decision", most=20))
    reward = form.number("reward", view.t, low=low, high=high)
    of = await in_thread(queries.decision_row, view.service.database, decision)
    if of is None or of["participant"] != (await in_thread(row_of, view, number))["name"]:
        raise Refused("not_found", "the participant has no such decision")
    reason = form.text("reason", most=500) or None
    fields = command_fields(view, form)
    await carry_out(
        view, Reward(decision=decision, reward=reward, corrects=reason is not None, reason=reason, **fields)
    )
    return go(f"/participants/{number}?done=corrected#{decision}")


PARTICIPANTS = [
    list_participants, find_participants, enrol, show_participant, confirm, set_status, add_note, correct,
]  # fmt: skip
