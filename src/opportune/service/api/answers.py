"""What the API answers: every field with its type, so that clients can be generated from the schema."""

import datetime as dt
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from opportune.service.api.models import Level, Values

Time = Annotated[dt.datetime, Meta(tz=True, description="UTC.", examples=["2026-03-29T07:00:00.000000Z"])]
LocalTime = Annotated[
    dt.datetime,
    Meta(tz=True, description="By the participant's clock, with its offset.", examples=["2026-03-29T09:00:00+02:00"]),
]
Date = Annotated[dt.date, Meta(examples=["2026-03-29"])]
Known = int | float | Level
Status = Literal["active", "paused", "withdrawn", "completed"]
Outcome = Literal["opened", "answered", "unanswered", "none"]
Role = Literal["app", "participant", "staff", "analyst", "admin"]


class Decision(msgspec.Struct, kw_only=True):
    """A decision. With status `nudge` the action is the one that stands meanwhile.

    Phones and staff get no probability, no budget and no `why`; staff do if the study file has them among `unblinded`.
    """

    decision: Annotated[str, Meta(description="Its id.", examples=["d123"])]
    participant: str
    step: Annotated[int, Meta(description="The number of the decision point, from 1.")]
    status: Annotated[
        Literal["settled", "nudge"], Meta(description="`nudge`: someone should reach the participant before `expires`.")
    ]
    nudge: Annotated[bool, Meta(description="Whether a nudge was decided, whatever became of it.")]
    action: Annotated[str, Meta(description="The advice: the name of an action, see `/study/content`.")]
    probability: float | None
    budget_left: float | None
    expires: Time | None
    outcome: Outcome | None
    revealed: Annotated[bool, Meta(description="Whether the advice is by what is known now.")]
    why: str | None
    mode: Literal["learned", "fallback"]
    late: bool


class RewardAnswer(msgspec.Struct, kw_only=True):
    """A decision's reward as it stands."""

    decision: str
    participant: str
    step: int
    reward: float | None
    learned: bool
    skipped: Annotated[bool, Meta(description="It did not come within the study's waiting time.")]
    changes: Annotated[int, Meta(description="How often it was corrected.")]


class DecisionDetails(Decision, kw_only=True):
    """A decision with what it was made by, and its reward as it stands."""

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
    """What must be done at once, as the study file says, about a value that was reported."""

    variable: str
    value: Known | None
    text: str


class Opening(msgspec.Struct, kw_only=True):
    """An opening that was taken in.

    It counts `now` where it came before an open nudge was answered, which it settles: `decision` is that decision, with
    the advice for this moment. Otherwise the `next` decision point that is not offline counts as opened.
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
    next_timezone: Annotated[str, Meta(description="The one from `next_from` on, where a change is to come.")] | None
    next_from: Annotated[str, Meta(description="A local date.", examples=["2026-12-20"])] | None
    number: int
    arm: str | None
    baseline: Values | None
    enrolled: Time
    step: Annotated[int, Meta(description="Decision points so far.")]
    budget_left: float | None
    open_decision: Annotated[str, Meta(description="The decision whose nudge waits for an answer.")] | None


class ParticipantDetails(Participant, kw_only=True):
    """A participant, and how far things are."""

    last_decided: Time | None
    last_reveal: Time | None
    nudges: int


class BundlePoint(msgspec.Struct, kw_only=True):
    """A decision point, with the advice that stands there as long as nothing is revealed.

    Without decision times in the study file `at` and `until` are null: the points come in order, whenever the app asks.
    Where public variables are not known beforehand `action` is null: it is that of the stratum with their values then.
    """

    step: int
    at: LocalTime | None
    until: LocalTime | None
    values: Values
    action: str | None


class BundleStratum(msgspec.Struct, kw_only=True):
    """The advice where the public variables have these values, as long as nothing is revealed."""

    values: Values
    action: str


class Bundle(msgspec.Struct, kw_only=True):
    """What a phone can show while it is offline, until the next reveal.

    `now` is the advice that stands, `points` are those to come, in order. Where public variables are not known
    beforehand `strata` has the advice for each of their values; `points` then say when, and are empty without times.
    """

    participant: str
    version: Annotated[str, Meta(description="Of the software that made it.")]
    made: Time
    timezone: str
    after_step: int
    content: Annotated[str, Meta(description="The version of the study's texts that it goes with.")]
    until: Annotated[LocalTime, Meta(description="When the last of it ends.")] | None
    now: BundlePoint | None
    points: list[BundlePoint]
    strata: list[BundleStratum]


class ParticipantEvent(msgspec.Struct, kw_only=True):
    """Something that an app should know of: `kind` is what happened, the rest is how things are now.

    `decision`: a decision point was decided; with status `nudge` someone is to reach the participant.
    `advice`: the advice has changed, after a call or an opening. `opening`: one was taken in, for the next decision.
    `status`, `timezone`: the participant's. `content`: the study was amended. `closed`: the study is over.
    """

    id: Annotated[str, Meta(description="For `after`, or Last-Event-ID.", examples=["123"])]
    kind: Literal["decision", "advice", "opening", "status", "timezone", "content", "closed"]
    at: Time
    participant: str
    status: Status
    timezone: str
    decision: Decision | None


class ParticipantEvents(msgspec.Struct, kw_only=True):
    """What happened, in order; `next` is what `after` takes the next time."""

    items: list[ParticipantEvent]
    next: str


class Issued(msgspec.Struct, kw_only=True):
    """The tokens of a participant's phone, shown once."""

    token: str
    expires: Time
    participant: str
    refresh: str


class Renewed(msgspec.Struct, kw_only=True):
    """An access token, until when it is good, and for whom."""

    token: str
    expires: Time
    participant: str


class TokensRevoked(msgspec.Struct, kw_only=True):
    """How many phones had a token that is of no use any more."""

    participant: str
    phones: int


class NoteAnswer(msgspec.Struct, kw_only=True):
    """A note that was written down."""

    participant: str
    event: int


class BatchItem(msgspec.Struct, kw_only=True):
    """One item of a batch, answered: its status, and the decision or the problem."""

    key: str
    status: int
    answer: Decision  # or a Problem, which schema.py adds: msgspec has no such unions


class ParticipantPage(msgspec.Struct, kw_only=True):
    """Some participants: `next` is what `after` takes for the next page; null on the last."""

    items: list[ParticipantDetails]
    next: str | None


class DecisionPage(msgspec.Struct, kw_only=True):
    """Some decisions: `next` is what `after` takes for the next page; null on the last."""

    items: list[DecisionDetails]
    next: str | None


class Look(msgspec.Struct, kw_only=True):
    """Someone looked at something."""

    id: int
    at: Time
    who: str
    role: str
    address: str
    what: str
    participant: str | None


class AccessPage(msgspec.Struct, kw_only=True):
    """Some looks: `next` is what `after` takes for the next page; null on the last."""

    items: list[Look]
    next: str | None


class Health(msgspec.Struct, kw_only=True):
    """How the service is."""

    status: Literal["alive", "ready"]
