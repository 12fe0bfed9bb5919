"""What the API answers about the study as a whole: how it stands, its texts, its record."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from opportune.live.occasion import Occasion
from opportune.service.api.answers import Escalation, Known, Role, Time
from opportune.service.api.models import Values

Hash = Annotated[str, Meta(description="SHA-256, as hexadecimal digits.")]


class ActionLabel(msgspec.Struct, kw_only=True):
    """What people read for an action; null where the study file has no text."""

    label: str | None


class Alert(msgspec.Struct, kw_only=True):
    """An alert that nobody has cleared."""

    level: Literal["red", "yellow", "green"]
    code: str
    participant: str | None
    text: str
    raised: Time


class StudyState(msgspec.Struct, kw_only=True):
    """How the study stands. Phones get what has no default here; alerts are not for apps."""

    study: str
    status: Literal["open", "closed"]
    hash: Hash
    actions: dict[str, ActionLabel]
    rehearsal: bool
    now: Annotated[Time, Meta(description="The service's clock, or what a rehearsal says.")]
    role: Annotated[Role, Meta(description="That of whoever asks.")]
    launched: Time | None = None
    enrolled: int | None = None
    amendments: int | None = None
    events: int | None = None
    head: Hash | None = None
    shared_budget: float | None = None
    spent: float | None = None
    nudges: int | None = None
    alerts: list[Alert] | None = None


class Choice(msgspec.Struct, kw_only=True):
    """A value, and what people read for it."""

    value: Known
    label: str


class Action(msgspec.Struct, kw_only=True):
    """Something that can be advised."""

    action: str
    label: str
    description: str | None


class Variable(msgspec.Struct, kw_only=True):
    """A variable of the context: one of some `levels`, a number from `low` to `high`, or known from the calendar.

    An app sends the public and sensed ones with each decision point, but for those that the service `knows` itself.
    """

    variable: str
    label: str
    visibility: Literal["public", "sensed", "reported"]
    knows: Annotated[bool, Meta(description="The service knows it: by the calendar, the record or from enrolment.")]
    levels: list[Choice]
    low: float | None
    high: float | None


class Question(msgspec.Struct, kw_only=True):
    """What participants are asked, for a reported variable: one of some `answers`, or a number from `low` to `high`."""

    variable: str
    text: str
    answers: list[Choice]
    low: float | None
    high: float | None
    step: float | None


class Nudge(msgspec.Struct, kw_only=True):
    """What a nudge is called, who makes it, and how long an answer is waited for."""

    name: str
    plural: str
    by: Literal["staff", "app"]
    answer_minutes: float


class RewardContent(msgspec.Struct, kw_only=True):
    """What rewards count, which can be right, and how long they are waited for."""

    unit: str | None
    low: float | None
    high: float | None
    wait_hours: float


class StudyContent(msgspec.Struct, kw_only=True):
    """What an app shows and asks, and when. It changes when the study is amended, and then has another `version`."""

    study: str
    version: str
    language: Annotated[str, Meta(description="Of the texts (BCP 47).", examples=["en"])]
    languages: Annotated[list[str], Meta(description="In which the texts can be had.")]
    timezone: Annotated[str, Meta(description="For participants who have none of their own.")]
    times: Annotated[
        list[Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", examples=["09:00"])]],
        Meta(description="Decision times by the participant's clock; none: whenever the app asks."),
    ]
    horizon: Annotated[int, Meta(description="Decision points in all.")]
    actions: list[Action]
    variables: list[Variable]
    questions: list[Question]
    nudge: Nudge
    reward: RewardContent


class Slot(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a decision point lies in the staff's calendar."""

    hours: float
    day: int
    closed: str | None = None
    until: int | None = None
    open_left: int | None = None


class Settled(msgspec.Struct, kw_only=True):
    """What became of a decision at once."""

    action: str
    outcome: str
    revealed: bool
    why: str | None = None
    drawn: list[float] | None = None


class Given(msgspec.Struct, kw_only=True):
    """What came in with an event; which of these depends on its kind."""

    sensed: Values | None = None
    reported: Values | None = None
    baseline: Values | None = None
    earlier: dict[str, Values] | None = None
    timezone: str | None = None
    status: str | None = None
    reason: str | None = None
    text: str | None = None
    available: bool | None = None
    opened: bool | None = None
    answered: bool | None = None
    shown: str | None = None
    past: bool | None = None
    slot: Slot | None = None
    mode: str | None = None
    cause: str | None = None
    outcome: str | None = None
    tries: int | None = None
    undone: bool | None = None
    reward: float | None = None
    changes: int | None = None
    file: str | None = None
    source: str | None = None
    rehearsal: bool | None = None
    commitment: str | None = None
    what: str | None = None
    account: str | None = None
    role: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    system_user: str | None = None
    severity: str | None = None
    serious: bool | None = None
    began: str | None = None
    related: str | None = None
    wanted: bool | None = None
    escalations: list[str] | None = None
    note: str | None = None
    item: str | None = None


class Answered(msgspec.Struct, kw_only=True):
    """What was answered with an event; which of these depends on its kind, and on who may see it."""

    number: int | None = None
    arm: str | None = None
    nudged: bool | None = None
    probability: float | None = None
    coin: float | None = None
    gap: float | None = None
    price: float | None = None
    disagreement: float | None = None
    tolerance: float | None = None
    fresh: str | None = None
    stale: str | None = None
    standing: str | None = None
    before: float | None = None
    left: float | None = None
    available: bool | None = None
    reason: str | None = None
    ineligible: str | None = None
    why: str | None = None
    notes: list[float] | None = None
    settled: Settled | None = None
    action: str | None = None
    outcome: str | None = None
    revealed: bool | None = None
    drawn: list[float] | None = None
    learned: bool | None = None
    escalations: list[Escalation] | None = None
    because: Occasion | None = None


class RecordedEvent(msgspec.Struct, kw_only=True):
    """One thing that happened, as it is stored and hashed. Fields of later versions may be added."""

    seq: int
    kind: str
    participant: str | None
    step: int | None
    decision: str | None
    who: str
    received: Time
    happened: Time
    timezone: str | None
    version: str
    algorithm: int
    study: Hash
    given: Given
    answer: Answered
    salt: str | None = None
    before: Hash | None = None


class RecordEntry(msgspec.Struct, kw_only=True):
    """An event, with its hash for those who see all of it."""

    event: RecordedEvent
    hash: Hash | None = None


class RecordPage(msgspec.Struct, kw_only=True):
    """Some of the record: `next` is what `after` takes for the next page; null on the last."""

    items: list[RecordEntry]
    next: str | None
