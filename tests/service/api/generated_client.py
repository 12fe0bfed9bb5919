"""The whole protocol by a client that openapi-python-client has made: `generated_client.py ADDRESS APP_KEY STAFF_KEY`.

Runs outside the tests' environment, beside the package `made`.
"""

import datetime as dt
import sys
import uuid

from made import AuthenticatedClient, Client
from made.api.decisions import answer, calls, decide, get_decision, open_, reward
from made.api.participants import bundle, enrol, get_participant, participant_events
from made.api.study import events, study, study_content
from made.api.tokens import issue_token, renew_token
from made.models import (
    Bundle,
    Decision,
    DecisionDetails,
    DecisionPage,
    Issued,
    Moment,
    MomentSensed,
    NewOpening,
    NewParticipant,
    NewReward,
    NudgeAnswer,
    NudgeAnswerReportedType0,
    Opening,
    Participant,
    ParticipantDetails,
    ParticipantEvents,
    Problem,
    RecordPage,
    Refresh,
    Renewed,
    RewardAnswer,
    StudyContent,
    StudyState,
)


def key() -> str:
    """An id for a write."""
    return uuid.uuid4().hex


def main(address: str, app_key: str, staff_key: str) -> None:
    """Enrol, connect a phone, decide, call, reward, open, follow."""
    app, staff = (AuthenticatedClient(base_url=address, token=token) for token in (app_key, staff_key))
    person = enrol.sync(
        client=staff, body=NewParticipant(participant="G001", timezone="Asia/Tokyo"), idempotency_key=key()
    )
    assert isinstance(person, Participant)
    assert isinstance(person.enrolled, dt.datetime)

    issued = issue_token.sync("G001", client=app)
    assert isinstance(issued, Issued)
    renewed = renew_token.sync(client=Client(base_url=address), body=Refresh(refresh=issued.refresh))
    assert isinstance(renewed, Renewed)
    assert renewed.participant == "G001"
    phone = AuthenticatedClient(base_url=address, token=renewed.token)

    content = study_content.sync(client=phone)
    assert isinstance(content, StudyContent)
    question = content.questions[0]
    reported = NudgeAnswerReportedType0.from_dict({question.variable: question.answers[-1].value})

    sensed = {}
    for variable in content.variables:
        if not variable.knows and variable.visibility != "reported":
            sensed[variable.variable] = variable.levels[0].value
    made = decide.sync("G001", client=phone, body=Moment(sensed=MomentSensed.from_dict(sensed)), idempotency_key=key())
    assert isinstance(made, Decision)
    assert made.status == "nudge"
    assert isinstance(made.expires, dt.datetime)
    assert made.expires > dt.datetime.now(dt.UTC)

    waiting = calls.sync(client=staff)
    assert isinstance(waiting, DecisionPage)
    assert made.decision in {each.decision for each in waiting.items}
    settled = answer.sync(
        made.decision, client=staff, body=NudgeAnswer(answered=True, reported=reported), idempotency_key=key()
    )
    assert isinstance(settled, Decision)
    assert settled.revealed

    happened = participant_events.sync("G001", client=phone, wait=5)
    assert isinstance(happened, ParticipantEvents)
    advice = happened.items[-1]
    assert advice.kind == "advice"
    assert advice.decision is not None
    assert advice.decision.action in {action.action for action in content.actions}

    stored = reward.sync(made.decision, client=phone, body=NewReward(reward=0.5), idempotency_key=key())
    assert isinstance(stored, RewardAnswer)
    assert stored.learned
    opened = open_.sync("G001", client=phone, body=NewOpening(), idempotency_key=key())
    assert isinstance(opened, Opening)
    assert opened.counts == "next"
    carried = bundle.sync("G001", client=phone)
    assert isinstance(carried, Bundle)
    assert carried.now is not None
    assert carried.now.action == advice.decision.action
    assert isinstance(carried.made, dt.datetime)

    details = get_decision.sync(made.decision, client=phone)
    assert isinstance(details, DecisionDetails)
    assert details.reward == 0.5
    there = get_participant.sync("G001", client=phone)
    assert isinstance(there, ParticipantDetails)
    assert there.step == 1
    state = study.sync(client=phone)
    assert isinstance(state, StudyState)
    record = events.sync(client=staff)
    assert isinstance(record, RecordPage)
    assert record.items[0].event.kind == "launched"
    refused = decide.sync("G002", client=phone, body=Moment(sensed=MomentSensed()), idempotency_key=key())
    assert isinstance(refused, Problem)
    assert refused.code == "not_found"
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
