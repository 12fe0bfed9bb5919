"""What the API answers about the study as a whole: its state, its texts, its record."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from opportune.service.api.answers import Escalation, Known, Role, Time
from opportune.service.api.models import Values
from opportune.service.state.occasion import Occasion

Hash = Annotated[str, Meta(description="SHA-256, as hexadecimal digits.")]


class ActionLabel(msgspec.Struct, kw_only=True):
    """The text that people read for an action; null if the study file has none."""

    label: str | None


class Alert(msgspec.Struct, kw_only=True):
    """An open alert."""

    level: Literal["red", "yellow", "green"]
    code: str
    participant: str | None
    text: str
    raised: Time


class StudyState(msgspec.Struct, kw_only=True):
    """The state of the study. Phones get only the fields that are required here; apps get no alerts."""

    study: str
    status: Literal["open", "closed"]
    hash: Hash
    actions: dict[str, ActionLabel]
    rehearsal: bool
    now: Annotated[Time, Meta(description="The service's time, or the rehearsal's.")]
    role: Annotated[Role, Meta(description="The caller's role.")]
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
    """A value, and the text that people read for it."""

    value: Known
    label: str


class Action(msgspec.Struct, kw_only=True):
    """An action that can be recommended."""

    action: str
    label: str
    description: str | None


class Variable(msgspec.Struct, kw_only=True):
    """A variable of the context: one of its `levels`, a number from `low` to `high`, or known from the calendar.

    An app sends the public and sensed variables with each decision point, except those that the service `knows`.
    """

    variable: str
    label: str
    visibility: Literal["public", "sensed", "reported"]
    knows: Annotated[bool, Meta(description="The service knows it from the calendar, the record or enrolment.")]
    levels: list[Choice]
    low: float | None
    high: float | None


class Question(msgspec.Struct, kw_only=True):
    """The question for a reported variable: the answer is one of `answers`, or a number from `low` to `high`."""

    variable: str
    text: str
    answers: list[Choice]
    low: float | None
    high: float | None
    step: float | None


class Nudge(msgspec.Struct, kw_only=True):
    """What a nudge is called, who makes it, and how long it waits for an answer."""

    name: str
    plural: str
    by: Literal["staff", "app"]
    answer_minutes: float


class RewardContent(msgspec.Struct, kw_only=True):
    """What a reward measures, its bounds, and how long a decision waits for it."""

    unit: str | None
    low: float | None
    high: float | None
    wait_hours: float


class StudyContent(msgspec.Struct, kw_only=True):
    """What an app shows and asks, and when. An amendment of the study may change it, and then changes `version`."""

    study: str
    version: str
    language: Annotated[str, Meta(description="The language of the texts (BCP 47).", examples=["en"])]
    languages: Annotated[list[str], Meta(description="The languages in which the texts are available.")]
    timezone: Annotated[str, Meta(description="The time zone of participants without one of their own.")]
    times: Annotated[
        list[Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", examples=["09:00"])]],
        Meta(description="Decision times in the participant's time zone; empty: whenever the app asks."),
    ]
    horizon: Annotated[int, Meta(description="The number of decision points.")]
    actions: list[Action]
    variables: list[Variable]
    questions: list[Question]
    nudge: Nudge
    reward: RewardContent


class Slot(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The position of a decision point in the staff's calendar."""

    hours: float
    day: int
    closed: str | None = None
    until: int | None = None
    open_left: int | None = None


class Settled(msgspec.Struct, kw_only=True):
    """The outcome of a decision that was settled at once."""

    action: str
    outcome: str
    revealed: bool
    why: str | None = None
    drawn: list[float] | None = None


class Given(msgspec.Struct, kw_only=True):
    """The input of an event; which fields it has depends on its kind."""

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
    """The algorithm's answer in an event; which fields it has depends on its kind and on the caller."""

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
    """One thing that happened, as it is stored and hashed. Later versions may add fields."""

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
    """An event, with its hash for callers who see all of it."""

    event: RecordedEvent
    hash: Hash | None = None


class RecordPage(msgspec.Struct, kw_only=True):
    """A page of the record; pass `next` as `after` for the next page. It is null on the last page."""

    items: list[RecordEntry]
    next: str | None
