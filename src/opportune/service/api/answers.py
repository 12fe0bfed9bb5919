"""The answers of the API, with a type for every field, so that clients can be generated from the schema."""

import datetime as dt
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from opportune.service.api.models import Level, Values

Time = Annotated[dt.datetime, Meta(tz=True, description="UTC.", examples=["2026-03-29T07:00:00.000000Z"])]
LocalTime = Annotated[
    dt.datetime,
    Meta(tz=True, description="In the participant's time zone, with offset.", examples=["2026-03-29T09:00:00+02:00"]),
]
Date = Annotated[dt.date, Meta(examples=["2026-03-29"])]
Known = int | float | Level
Status = Literal["active", "paused", "withdrawn", "completed"]
Outcome = Literal["opened", "answered", "unanswered", "none"]
Role = Literal["app", "participant", "staff", "analyst", "admin"]


class Decision(msgspec.Struct, kw_only=True):
    """A decision. With status `nudge`, the action is valid until the nudge is settled.

    Phones and staff get no probability, no budget and no `why`, except staff whom the study file lists in `unblinded`.
    """

    decision: Annotated[str, Meta(description="The decision's id.", examples=["d123"])]
    participant: str
    step: Annotated[int, Meta(description="The number of the decision point, from 1.")]
    status: Annotated[
        Literal["settled", "nudge"], Meta(description="`nudge`: someone should reach the participant before `expires`.")
    ]
    nudge: Annotated[bool, Meta(description="Whether a nudge was made, whatever its outcome.")]
    action: Annotated[str, Meta(description="The advice: the name of an action, see `/study/content`.")]
    probability: float | None
    budget_left: float | None
    expires: Time | None
    outcome: Outcome | None
    revealed: Annotated[bool, Meta(description="Whether the advice uses what is known now.")]
    why: str | None
    mode: Literal["learned", "fallback"]
    late: bool


class RewardAnswer(msgspec.Struct, kw_only=True):
    """A decision's present reward."""

    decision: str
    participant: str
    step: int
    reward: float | None
    learned: bool
    skipped: Annotated[bool, Meta(description="It did not arrive within the study's waiting time.")]
    changes: Annotated[int, Meta(description="How often it was corrected.")]


class DecisionDetails(Decision, kw_only=True):
    """A decision, with the values behind it and its present reward."""

    day: Annotated[int, Meta(description="The participant's day of the study, from 1.")]
    happened: Time
    received: Time
    available: bool
    reason: str | None
    sensed: Values
    reported: Values | None
    reward: float | None
    learned: bool
    skipped: bool
    changes: int


class Escalation(msgspec.Struct, kw_only=True):
    """What must be done at once about a reported value, as the study file says."""

    variable: str
    value: Known | None
    text: str


class Opening(msgspec.Struct, kw_only=True):
    """An opening that was recorded.

    It counts `now` if it settles an open nudge: `decision` is the nudge's decision, with the advice for this moment.
    Otherwise the `next` decision point that is not offline counts as opened.
    """

    participant: str
    counts: Literal["now", "next"]
    decision: Decision | None
    escalations: list[Escalation]


class Participant(msgspec.Struct, kw_only=True):
    """A participant."""

    participant: str
    status: Status
    reason: str | None
    timezone: Annotated[str, Meta(description="IANA name.", examples=["Europe/Berlin"])]
    next_timezone: Annotated[str, Meta(description="The time zone from `next_from` on, if a change is planned.")] | None
    next_from: Annotated[str, Meta(description="A local date.", examples=["2026-12-20"])] | None
    number: int
    arm: str | None
    baseline: Values | None
    enrolled: Time
    step: Annotated[int, Meta(description="Decision points so far.")]
    budget_left: float | None
    open_decision: Annotated[str, Meta(description="The decision whose nudge waits for an answer.")] | None


class ParticipantDetails(Participant, kw_only=True):
    """A participant, with their progress."""

    last_decided: Time | None
    last_reveal: Time | None
    nudges: int


class BundlePoint(msgspec.Struct, kw_only=True):
    """A decision point, with the advice that is valid there until the next reveal.

    If the study file has no decision times, `at` and `until` are null: the points come in order, when the app asks.
    If public variables are not known in advance, `action` is null: the advice is that of the stratum with their values.
    """

    step: int
    at: LocalTime | None
    until: LocalTime | None
    values: Values
    action: str | None


class BundleStratum(msgspec.Struct, kw_only=True):
    """The advice for these values of the public variables, until the next reveal."""

    values: Values
    action: str


class Bundle(msgspec.Struct, kw_only=True):
    """What a phone can show while it is offline, until the next reveal.

    `now` is the present advice; `points` are the coming decision points, in order. If public variables are not known in
    advance, `strata` contains the advice for each of their values, and `points` only times (none without them).
    """

    participant: str
    version: Annotated[str, Meta(description="The version of the software that made it.")]
    made: Time
    timezone: str
    after_step: int
    content: Annotated[str, Meta(description="The version of the study's texts that it refers to.")]
    until: Annotated[LocalTime, Meta(description="When the last of its points ends.")] | None
    now: BundlePoint | None
    points: list[BundlePoint]
    strata: list[BundleStratum]


class ParticipantEvent(msgspec.Struct, kw_only=True):
    """An event for a participant's app: `kind` is what happened, the other fields are the present state.

    `decision`: a decision was made; with status `nudge`, someone should reach the participant. `advice`: the advice
    has changed, after a call or an opening. `opening`: an opening was recorded for the next decision point. `status`,
    `timezone`: the participant's was changed. `content`: the study was amended. `closed`: the study was closed.
    """

    id: Annotated[str, Meta(description="For `after`, or Last-Event-ID.", examples=["123"])]
    kind: Literal["decision", "advice", "opening", "status", "timezone", "content", "closed"]
    at: Time
    participant: str
    status: Status
    timezone: str
    decision: Decision | None


class ParticipantEvents(msgspec.Struct, kw_only=True):
    """Events in order; pass `next` as `after` in the next request."""

    items: list[ParticipantEvent]
    next: str


class Issued(msgspec.Struct, kw_only=True):
    """The tokens of a participant's phone, shown once."""

    token: str
    expires: Time
    participant: str
    refresh: str


class Renewed(msgspec.Struct, kw_only=True):
    """An access token, when it expires, and its participant."""

    token: str
    expires: Time
    participant: str


class TokensRevoked(msgspec.Struct, kw_only=True):
    """The number of phones whose tokens were revoked."""

    participant: str
    phones: int


class NoteAnswer(msgspec.Struct, kw_only=True):
    """A note that was recorded."""

    participant: str
    event: int


class BatchItem(msgspec.Struct, kw_only=True):
    """The answer to one item of a batch: its status, and the decision or the problem."""

    key: str
    status: int
    answer: Decision  # or a Problem, which schema.py adds: msgspec has no such unions


class ParticipantPage(msgspec.Struct, kw_only=True):
    """A page of participants; pass `next` as `after` for the next page. It is null on the last page."""

    items: list[ParticipantDetails]
    next: str | None


class DecisionPage(msgspec.Struct, kw_only=True):
    """A page of decisions; pass `next` as `after` for the next page. It is null on the last page."""

    items: list[DecisionDetails]
    next: str | None


class Look(msgspec.Struct, kw_only=True):
    """One entry of the access log: someone looked at something."""

    id: int
    at: Time
    who: str
    role: str
    address: str
    what: str
    participant: str | None


class AccessPage(msgspec.Struct, kw_only=True):
    """A page of the access log; pass `next` as `after` for the next page. It is null on the last page."""

    items: list[Look]
    next: str | None


class Health(msgspec.Struct, kw_only=True):
    """The state of the service."""

    status: Literal["alive", "ready"]
