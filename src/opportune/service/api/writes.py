"""The addresses that write."""

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, patch, post
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from opportune.service.accounts.keys import ADMIN, APP, STAFF
from opportune.service.api import models
from opportune.service.api.problems import WRITING
from opportune.service.api.requests import (
    IdempotencyKey,
    answer,
    as_json,
    known_decision,
    known_name,
    roles,
    service_of,
    write_of,
)
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.participants import Enrol, Note, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.problems import Refused
from opportune.service.state import clock

MOST_ITEMS = 1000
Asked = Request[Any, Any, State]


def _made(container: Any, status: int, description: str) -> dict[int, ResponseSpec]:
    return {**WRITING, status: ResponseSpec(container, description=description, generate_examples=False)}


def proposal(participant: str, data: models.Moment, write: dict[str, Any]) -> Propose:
    """The command that asks for a decision."""
    given = {
        "sensed": data.sensed, "opened": data.opened, "reported": data.reported, "available": data.available,
        "reason": data.reason, "shown": data.shown,
    }  # fmt: skip
    at = None if data.at is None else clock.from_datetime(data.at)
    return Propose(participant=participant, given=given, at=at, **write)


def settlement(decision: str, data: models.NudgeAnswer, write: dict[str, Any]) -> Answer:
    """The command that says what became of a nudge."""
    return Answer(
        decision=decision, answered=data.answered, opened=data.opened, reported=data.reported, earlier=data.earlier,
        shown=data.shown, **write,
    )  # fmt: skip


def rewarding(decision: str, data: models.NewReward, write: dict[str, Any]) -> Reward:
    """The command that reports a reward."""
    return Reward(decision=decision, reward=data.reward, corrects=data.corrects, reason=data.reason, **write)


@post(
    "/participants", opt=roles(STAFF, ADMIN), responses=_made(models.Participant, 201, "Enrolled."),
    tags=["participants"], operation_id="enrol", summary="Enrol a participant",
)  # fmt: skip
async def enrol(
    request: Asked, data: JSONBody[models.NewParticipant], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """A participant joins; number and stream follow from the order of enrolment."""
    write = write_of(request, idempotency_key, data)
    return answer(
        await service_of(request).carry_out(Enrol(participant=data.participant, timezone=data.timezone, **write))
    )


@patch(
    "/participants/{participant:str}", opt=roles(STAFF, ADMIN), tags=["participants"], operation_id="set_status",
    responses=_made(models.Participant, 200, "Changed."), summary="Pause, resume, withdraw or complete",
)  # fmt: skip
async def set_status(
    request: Asked, participant: FromPath[str], data: JSONBody[models.StatusChange], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """A paused participant is not nudged; one who has withdrawn or completed makes no more decisions."""
    name, write = known_name(participant), write_of(request, idempotency_key, data)
    command = SetStatus(participant=name, status=data.status, reason=data.reason, **write)
    return answer(await service_of(request).carry_out(command))


@post(
    "/participants/{participant:str}/notes", opt=roles(STAFF), responses=_made(models.NoteAnswer, 201, "Noted."),
    tags=["participants"], operation_id="add_note", summary="Write a note",
)  # fmt: skip
async def add_note(
    request: Asked, participant: FromPath[str], data: JSONBody[models.NewNote], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """A remark of staff, for the record."""
    name, write = known_name(participant), write_of(request, idempotency_key, data)
    return answer(await service_of(request).carry_out(Note(participant=name, text=data.text, **write)))


@post(
    "/participants/{participant:str}/decisions", opt=roles(APP), responses=_made(models.Decision, 201, "Decided."),
    tags=["decisions"], operation_id="decide", summary="Ask for a decision",
)  # fmt: skip
async def decide(
    request: Asked, participant: FromPath[str], data: JSONBody[models.Moment], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """Nudge now? With status `nudge` someone should reach the participant before `expires`."""
    name, write = known_name(participant), write_of(request, idempotency_key, data)
    return answer(await service_of(request).carry_out(proposal(name, data, write)))


@post(
    "/decisions", opt=roles(APP), tags=["decisions"], operation_id="decide_all",
    responses={
        **_made(list[models.BatchItem], 201, "All decided, in the order asked."),
        207: ResponseSpec(
            list[models.BatchItem], description="Some were refused: see each status.", generate_examples=False
        ),
    },
    summary="Ask for many decisions",
)  # fmt: skip
async def decide_all(
    request: Asked, data: JSONBody[Annotated[list[models.MomentOf], Meta(min_length=1, max_length=MOST_ITEMS)]]
) -> Response[bytes]:
    """For a nightly run over all participants: answered in order, each item under its own key."""
    if not 1 <= len(data) <= MOST_ITEMS:
        raise Refused("invalid", f"the batch has {len(data)} items; expected 1 to {MOST_ITEMS}")
    keys = [item.key for item in data]
    if len(set(keys)) < len(keys):
        raise Refused("invalid", "two items of the batch have the same key; expected one each")
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
    "/decisions/{decision:str}/answer", opt=roles(APP, STAFF), status_code=200, tags=["decisions"],
    responses=_made(models.Decision, 200, "Settled."), operation_id="answer", summary="Say what became of a nudge",
)  # fmt: skip
async def answer_nudge(
    request: Asked, decision: FromPath[str], data: JSONBody[models.NudgeAnswer], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """Answered or not, with what was reported. An answer after the window counts as an opening at the next decision."""
    known, write = known_decision(decision), write_of(request, idempotency_key, data)
    return answer(await service_of(request).carry_out(settlement(known, data, write)))


@post(
    "/decisions/{decision:str}/reward", opt=roles(APP, STAFF), status_code=200, tags=["decisions"],
    responses=_made(models.RewardAnswer, 200, "Stored."), operation_id="reward", summary="Report a reward",
)  # fmt: skip
async def reward(
    request: Asked, decision: FromPath[str], data: JSONBody[models.NewReward], idempotency_key: IdempotencyKey
) -> Response[bytes]:
    """The reward of a decision, whenever it comes; the same value again changes nothing, another is a correction."""
    known, write = known_decision(decision), write_of(request, idempotency_key, data)
    return answer(await service_of(request).carry_out(rewarding(known, data, write)))


WRITES = [enrol, set_status, add_note, decide, decide_all, answer_nudge, reward]
