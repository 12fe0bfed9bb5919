"""The bodies that the API accepts, with constraints on every field; a refusal names the field."""

import datetime as dt
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

END = r"(?!\n)$"  # `$` alone would accept a line break at the end
NAME = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}{END}"
_HIDDEN = r"\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069"  # terminal controls, and marks that reverse text
_PLAIN = rf"^[^{_HIDDEN}]*{END}"
_SHOWN = rf"^[^{_HIDDEN}]*[^\s{_HIDDEN}][^{_HIDDEN}]*{END}"

Name = Annotated[
    str,
    Meta(
        pattern=NAME, max_length=64, description="A pseudonym of letters, digits, '.', '_' and '-'.", examples=["P001"]
    ),
]
Text = Annotated[str, Meta(min_length=1, max_length=2000, pattern=_SHOWN)]
Level = Annotated[str, Meta(max_length=200, pattern=_PLAIN)]
Key = Annotated[
    str, Meta(min_length=1, max_length=200, pattern=rf"^[\x21-\x7e]+{END}", description="An id that you choose.")
]
Variable = Annotated[str, Meta(max_length=100, pattern=_PLAIN)]
Value = int | float | Level | None
Values = dict[Variable, Value]
Time = Annotated[dt.datetime, Meta(tz=True, examples=["2026-03-29T09:00:00+02:00"])]
Earlier = Annotated[
    dict[Annotated[str, Meta(pattern=rf"^[1-9][0-9]{{0,6}}{END}")], Values],
    Meta(description="Reported variables of earlier steps, by their number; only with a reveal."),
]


class _Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A body: unknown fields are refused, and values are not converted."""


class NewParticipant(_Body, kw_only=True):
    """A participant to enrol."""

    participant: Name
    timezone: (
        Annotated[
            str, Meta(max_length=64, description="IANA name; by default the study's.", examples=["Europe/Berlin"])
        ]
        | None
    ) = None
    baseline: (
        Annotated[
            Values,
            Meta(description="Values known at enrolment: every variable in `baseline` of the study file."),
        ]
        | None
    ) = None


class StatusChange(_Body, kw_only=True):
    """A participant's new status. Withdrawn and completed are final, unless they were a mistake."""

    status: Literal["active", "paused", "withdrawn", "completed"]
    reason: Text | None = None


class ParticipantCorrection(_Body, kw_only=True):
    """A correction of a participant's time zone, or of a withdrawal or completion by mistake."""

    timezone: Annotated[str, Meta(max_length=64, examples=["Europe/Berlin"])] | None = None
    from_date: (
        Annotated[dt.date, Meta(description="The local date from which the time zone applies; null: from now on.")]
        | None
    ) = None
    status: Annotated[Literal["active"], Meta(description="Undo a withdrawal or completion.")] | None = None
    reason: Text


class DecisionCorrection(_Body, kw_only=True):
    """A correction of a decision's reported values, or of the outcome of its nudge."""

    reported: Annotated[Values, Meta(examples=[{"mood": "good"}])] | None = None
    outcome: Literal["opened", "answered", "unanswered"] | None = None
    reason: Text


class NewNote(_Body, kw_only=True):
    """A note about a participant; no names or telephone numbers."""

    text: Text


class Moment(_Body, kw_only=True):
    """A decision point: the sensed values, and whether the participant can be nudged."""

    sensed: Annotated[
        Values,
        Meta(
            description="Public and sensed variables; null if a sensor gave no value.",
            examples=[{"time_of_day": "morning", "stress": 3, "sleep": "poor"}],
        ),
    ]
    at: Time | None = None
    opened: Annotated[bool, Meta(description="The app is open right now, which reveals free of charge.")] = False
    reported: Annotated[Values, Meta(description="Reported variables, if known; sealed until a reveal.")] | None = None
    earlier: Earlier | None = None
    available: bool = True
    reason: Annotated[Text, Meta(description="Why the participant is not available.")] | None = None
    shown: Annotated[Level, Meta(description="What the phone showed from its bundle while it was offline.")] | None = (
        None
    )


class MomentOf(Moment, kw_only=True):
    """A decision point in a batch, with its participant and the item's idempotency key."""

    participant: Name
    key: Key


class NudgeAnswer(_Body, kw_only=True):
    """The outcome of a nudge."""

    answered: bool
    opened: Annotated[bool, Meta(description="The patient opened the app unasked since the decision.")] = False
    reported: Annotated[Values, Meta(examples=[{"mood": "low"}])] | None = None
    earlier: Earlier | None = None
    shown: Level | None = None


class NewOpening(_Body, kw_only=True):
    """The app was opened unasked."""

    reported: (
        Annotated[Values, Meta(description="Answers to the study's questions.", examples=[{"mood": "low"}])] | None
    ) = None
    at: Annotated[Time, Meta(description="When, if it is reported later; by default now.")] | None = None


class NewReward(_Body, kw_only=True):
    """The reward of a decision. A value that differs from the stored one needs `corrects` and a reason."""

    reward: Annotated[float, Meta(examples=[0.7])]
    corrects: bool = False
    reason: Text | None = None


class Refresh(_Body, kw_only=True):
    """The refresh token that a participant's phone keeps."""

    refresh: Annotated[str, Meta(min_length=1, max_length=200, pattern=rf"^[\x21-\x7e]+{END}")]
