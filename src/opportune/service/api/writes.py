"""The addresses for writing."""

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, patch, post
from litestar.concurrency import sync_to_thread
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from opportune.service.accounts import tokens
from opportune.service.accounts.changes import Actor
from opportune.service.accounts.keys import ADMIN, APP, PHONE, STAFF
from opportune.service.api import answers, models
from opportune.service.api.problems import WRITING, refusals
from opportune.service.api.requests import (
    OPEN,
    IdempotencyKey,
    address_of,
    answer,
    as_json,
    caller_of,
    known_decision,
    known_name,
    origin_of,
    roles,
    service_of,
    write_of,
)
from opportune.service.commands.base import Command
from opportune.service.commands.corrections import CorrectOutcome, CorrectReported, CorrectZone, Reinstate
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.openings import Open
from opportune.service.commands.participants import Enrol, Note, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.problems import Refused
from opportune.service.record import queries
from opportune.service.state import clock

MOST_ITEMS = 1000
Asked = Request[Any, Any, State]


def _made(container: Any, status: int, description: str) -> dict[int, ResponseSpec]:
    return {**WRITING, status: ResponseSpec(container, description=description, generate_examples=False)}


def proposal(participant: str, data: models.Moment, write: dict[str, Any]) -> Propose:
    """The command that asks for a decision."""
    given = {
        "sensed": data.sensed, "opened": data.opened, "reported": data.reported, "earlier": data.earlier,
        "available": data.available, "reason": data.reason, "shown": data.shown,
    }  # fmt: skip
    at = None if data.at is None else clock.from_datetime(data.at)
    return Propose(participant=participant, given=given, at=at, **write)


def settlement(decision: str, data: models.NudgeAnswer, write: dict[str, Any]) -> Answer:
    """The command that reports the outcome of a nudge."""
    return Answer(
        decision=decision, answered=data.answered, opened=data.opened, reported=data.reported, earlier=data.earlier,
        shown=data.shown, **write,
    )  # fmt: skip


def rewarding(decision: str, data: models.NewReward, write: dict[str, Any]) -> Reward:
    """The command that reports a reward."""
    return Reward(decision=decision, reward=data.reward, corrects=data.corrects, reason=data.reason, **write)


@post(
    "/participants", opt=roles(STAFF, ADMIN), responses=_made(answers.Participant, 201, "Enrolled."),
    tags=["participants"], operation_id="enrol", summary="Enrol a participant",
)  # fmt: skip
async def enrol(
    request: Asked, data: JSONBody[models.NewParticipant], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """Enrol a participant, who gets the next number."""
    write = write_of(request, idempotency_key, data)
    return answer(
        await service_of(request).carry_out(
            Enrol(participant=data.participant, timezone=data.timezone, baseline=data.baseline, **write)
        )
    )


@patch(
    "/participants/{participant:str}", opt=roles(STAFF, ADMIN), tags=["participants"], operation_id="set_status",
    responses=_made(answers.Participant, 200, "Changed."), summary="Pause, resume, withdraw or complete",
)  # fmt: skip
async def set_status(
    request: Asked, participant: FromPath[str], data: JSONBody[models.StatusChange], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """A paused participant gets no nudges; for one who has withdrawn or completed, no more decisions are made."""
    name, write = known_name(participant), write_of(request, idempotency_key, data)
    command = SetStatus(participant=name, status=data.status, reason=data.reason, **write)
    return answer(await service_of(request).carry_out(command))


@post(
    "/participants/{participant:str}/notes", opt=roles(STAFF), responses=_made(answers.NoteAnswer, 201, "Noted."),
    tags=["participants"], operation_id="add_note", summary="Write a note",
)  # fmt: skip
async def add_note(
    request: Asked, participant: FromPath[str], data: JSONBody[models.NewNote], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """Record a note by staff about a participant."""
    name, write = known_name(participant), write_of(request, idempotency_key, data)
    return answer(await service_of(request).carry_out(Note(participant=name, text=data.text, **write)))


@post(
    "/participants/{participant:str}/decisions", opt=roles(APP, PHONE),
    responses=_made(answers.Decision, 201, "Decided."),
    tags=["decisions"], operation_id="decide", summary="Ask for a decision",
)  # fmt: skip
async def decide(
    request: Asked, participant: FromPath[str], data: JSONBody[models.Moment], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """Decide whether to nudge now. With status `nudge`, someone should reach the participant before `expires`."""
    name, write = known_name(participant), write_of(request, idempotency_key, data)
    return answer(await service_of(request).carry_out(proposal(name, data, write)))


@post(
    "/decisions", opt=roles(APP), tags=["decisions"], operation_id="decide_all",
    responses={
        **_made(list[answers.BatchItem], 201, "All decided, in the order of the request."),
        207: ResponseSpec(
            list[answers.BatchItem], description="Some were refused: see each status.", generate_examples=False
        ),
    },
    summary="Ask for many decisions",
)  # fmt: skip
async def decide_all(
    request: Asked, data: JSONBody[Annotated[list[models.MomentOf], Meta(min_length=1, max_length=MOST_ITEMS)]]
) -> Response[bytes]:
    """Many decisions in one request, for a nightly run: answered in order, each item under its own key."""
    if not 1 <= len(data) <= MOST_ITEMS:
        raise Refused("invalid", f"the batch contains {len(data)} items; expected 1 to {MOST_ITEMS}")
    keys = [item.key for item in data]
    if len(set(keys)) < len(keys):
        raise Refused("invalid", "two items of the batch have the same key; expected a different key for each")
    service = service_of(request)
    commands = []
    for item in data:
        fields = {name: getattr(item, name) for name in models.Moment.__struct_fields__}
        path = f"/api/v1/participants/{item.participant}/decisions"
        write = write_of(request, item.key, models.Moment(**fields), path)
        commands.append(proposal(item.participant, item, write))
    found = await asyncio.gather(*(service.carry_out(command) for command in commands), return_exceptions=True)
    items, whole = [], True
    for key, reply in zip(keys, found, strict=True):
        if isinstance(reply, Refused):
            whole = False
            items.append({"key": key, "status": reply.status, "answer": msgspec.to_builtins(reply.problem())})
        elif isinstance(reply, BaseException):
            raise reply
        else:
            items.append({"key": key, "status": reply.status, "answer": msgspec.Raw(reply.body)})
    return as_json(items, 201 if whole else 207)


@post(
    "/decisions/{decision:str}/answer", opt=roles(APP, STAFF, PHONE), status_code=200, tags=["decisions"],
    responses=_made(answers.Decision, 200, "Settled."), operation_id="answer", summary="Report the outcome of a nudge",
)  # fmt: skip
async def answer_nudge(
    request: Asked, decision: FromPath[str], data: JSONBody[models.NudgeAnswer], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """Answered or not, with the reported values. A late answer counts as an opening at the next decision point."""
    known, write = known_decision(decision), write_of(request, idempotency_key, data)
    return answer(await service_of(request).carry_out(settlement(known, data, write)))


@post(
    "/participants/{participant:str}/openings", opt=roles(APP, PHONE), tags=["decisions"], operation_id="open",
    responses=_made(answers.Opening, 201, "Recorded."), summary="Report that the app was opened unasked",
)  # fmt: skip
async def opened(
    request: Asked, participant: FromPath[str], data: JSONBody[models.NewOpening], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """An opening settles the open nudge; without one, it counts at the next decision point that is not offline."""
    name, write = known_name(participant), write_of(request, idempotency_key, data)
    at = None if data.at is None else clock.from_datetime(data.at)
    return answer(await service_of(request).carry_out(Open(participant=name, reported=data.reported, at=at, **write)))


@post(
    "/decisions/{decision:str}/reward", opt=roles(APP, STAFF, PHONE), status_code=200, tags=["decisions"],
    responses=_made(answers.RewardAnswer, 200, "Stored."), operation_id="reward", summary="Report a reward",
)  # fmt: skip
async def reward(
    request: Asked, decision: FromPath[str], data: JSONBody[models.NewReward], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """Report a decision's reward, at any time. The same value again changes nothing; another value is a correction."""
    known, write = known_decision(decision), write_of(request, idempotency_key, data)
    if data.corrects and caller_of(request).role in {APP, PHONE}:
        raise Refused("forbidden", "only staff may correct a reward, with a reason")
    return answer(await service_of(request).carry_out(rewarding(known, data, write)))


def _one(given: dict[str, Any]) -> str:
    """The only field that is given: each correction is a separate event."""
    found = [name for name, value in given.items() if value is not None]
    if len(found) != 1:
        raise Refused("invalid", f"{' and '.join(found) or 'nothing'} is given; expected one of {', '.join(given)}")
    return found[0]


@post(
    "/participants/{participant:str}/corrections", opt=roles(STAFF), status_code=200, tags=["corrections"],
    responses=_made(answers.Participant, 200, "Corrected."), operation_id="correct_participant",
    summary="Correct a time zone, plan its change, or undo a withdrawal",
)  # fmt: skip
async def correct_participant(
    request: Asked, participant: FromPath[str], data: JSONBody[models.ParticipantCorrection],
    idempotency_key: IdempotencyKey,
) -> Response[bytes]:  # fmt: skip
    """The first entry stays on record, and so does the reason; past decisions do not change."""
    name, write = known_name(participant), write_of(request, idempotency_key, data)
    if data.from_date is not None and data.timezone is None:
        raise Refused("invalid", "from_date is given without a timezone; expected both, or neither")
    if _one({"timezone": data.timezone, "status": data.status}) == "status":
        command: Command = Reinstate(participant=name, reason=data.reason, **write)
    else:
        command = CorrectZone(
            participant=name, timezone=data.timezone or "", from_date=data.from_date, reason=data.reason, **write
        )  # fmt: skip
    return answer(await service_of(request).carry_out(command))


@post(
    "/decisions/{decision:str}/corrections", opt=roles(STAFF), status_code=200, tags=["corrections"],
    responses=_made(answers.Decision, 200, "Corrected."), operation_id="correct_decision",
    summary="Correct reported values, or the outcome of a call",
)  # fmt: skip
async def correct_decision(
    request: Asked, decision: FromPath[str], data: JSONBody[models.DecisionCorrection],
    idempotency_key: IdempotencyKey,
) -> Response[bytes]:  # fmt: skip
    """The correction counts for the analysis, and for later learning; the first entry stays on record."""
    known, write = known_decision(decision), write_of(request, idempotency_key, data)
    if _one({"reported": data.reported, "outcome": data.outcome}) == "reported":
        command: Command = CorrectReported(decision=known, reported=data.reported or {}, reason=data.reason, **write)
    else:
        command = CorrectOutcome(decision=known, outcome=data.outcome or "", reason=data.reason, **write)
    return answer(await service_of(request).carry_out(command))


@post(
    "/participants/{participant:str}/tokens", opt=roles(APP, STAFF, ADMIN), tags=["tokens"], operation_id="issue_token",
    responses={**refusals(404, 413, 422, 503), 201: ResponseSpec(answers.Issued, description="Issued, shown once.",
                                                                generate_examples=False)},
    summary="Issue tokens for a participant's phone",
)  # fmt: skip
async def issue_token(request: Asked, participant: FromPath[str]) -> Response[bytes]:
    """For one phone: a refresh token to keep, and a first access token. Both are restricted to this participant."""
    name, service = known_name(participant), service_of(request)
    if queries.participant_row(service.database, name) is None:
        raise Refused("not_found", "no participant has this name")
    by = Actor(caller_of(request).name, origin_of(request))
    issued = await sync_to_thread(tokens.issue, service.database, name, by)
    return as_json({"refresh": issued.refresh, **_shown(issued.access)}, 201)


def _shown(access: tokens.Access) -> dict[str, str]:
    return {"token": access.token, "expires": clock.iso(access.expires), "participant": access.participant}


@delete(
    "/participants/{participant:str}/tokens", opt=roles(APP, STAFF, ADMIN), tags=["tokens"], status_code=200,
    responses={**refusals(404, 422, 503), 200: ResponseSpec(answers.TokensRevoked, description="Revoked.",
                                                           generate_examples=False)},
    operation_id="revoke_tokens", summary="Revoke all tokens of a participant",
)  # fmt: skip
async def revoke_tokens(request: Asked, participant: FromPath[str]) -> Response[bytes]:
    """Revoke all tokens of a participant, after a phone is lost or when the participant leaves."""
    name, service = known_name(participant), service_of(request)
    if queries.participant_row(service.database, name) is None:
        raise Refused("not_found", "no participant has this name")
    by = Actor(caller_of(request).name, origin_of(request))
    phones = await sync_to_thread(tokens.revoke, service.database, name, by)
    return as_json({"participant": name, "phones": phones})


@post(
    "/tokens", opt=OPEN, tags=["tokens"], operation_id="renew_token", security=[],
    responses={**refusals(413, 422, 503), 201: ResponseSpec(answers.Renewed, description="Renewed.",
                                                            generate_examples=False)},
    summary="Renew an access token",
)  # fmt: skip
async def renew_token(request: Asked, data: JSONBody[models.Refresh]) -> Response[bytes]:
    """Issue a new access token for a refresh token."""
    service, address = service_of(request), address_of(request)
    found = await sync_to_thread(tokens.renew, service.database, data.refresh)
    if found is None:
        service.limits.keys.count(address)
        raise Refused("unauthenticated", "the refresh token is invalid or expired; expected a new one from staff")
    return as_json(_shown(found), 201)


WRITES = [
    enrol, set_status, add_note, decide, decide_all, answer_nudge, opened, reward, correct_participant,
    correct_decision, issue_token, revoke_tokens, renew_token,
]  # fmt: skip
