"""What is refused, and what is warned of: each by a record that meets the condition, and one that does not."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from records import record, with_actions

from opportune.errors import InputError
from opportune.inference import Estimates, actions, emee, wcls


def analysed(frame: pd.DataFrame, **changes: Any) -> Estimates:
    return wcls(frame, **{"available": "eligible", "controls": "stress", **changes})


def eligible_with(column: str, value: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """One eligible row with this value."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        first = frame.index[frame["eligible"] == 1][0]
        return frame.assign(**{column: frame[column].where(frame.index != first, value)})

    return change


@pytest.mark.parametrize(("p", "good"), [(0.0, 0.01), (1.0, 0.99), (0.003, 0.2)])
def test_a_row_that_could_not_have_gone_otherwise_was_not_randomised(p: float, good: float) -> None:
    """An eligible row with a probability outside the protocol's bounds; an ineligible one may have any."""
    frame = record(1)
    with pytest.raises(
        InputError, match=r"1 of 4\d\d eligible rows have a probability of a outside the protocol's bounds"
    ):
        analysed(eligible_with("p", p)(frame))
    assert analysed(eligible_with("p", good)(frame)).df == 27
    assert analysed(frame.assign(p=frame["p"].where(frame["eligible"] == 1, p))).df == 27


def test_the_protocols_own_bounds_count() -> None:
    """Where the protocol promises 0.3 at least, 0.2 is outside; where it promises 0.2, it is not."""
    with pytest.raises(InputError, match=r"expected 0\.3 to 0\.7"):
        analysed(record(1), least_probability=0.3)
    assert analysed(record(1), least_probability=0.2).df == 27


def test_treatments_that_do_not_fit_their_probabilities_are_refused() -> None:
    """Treatments drawn with other probabilities than those recorded: more than four standard deviations away."""
    frame = record(1)
    rng = np.random.default_rng(5)
    often = (rng.random(len(frame)) < np.clip(frame["p"] + 0.15, 0, 1)).astype(int) * frame["eligible"]
    with pytest.raises(
        InputError, match=r"a happened in \d+ of \d+ eligible rows, where its recorded probabilities imply"
    ):
        analysed(frame.assign(a=often))
    again = (rng.random(len(frame)) < frame["p"]).astype(int) * frame["eligible"]
    assert analysed(frame.assign(a=again)).df == 27


def test_an_action_that_does_not_fit_its_probabilities_is_refused() -> None:
    """Of several actions, the one that came too often is named."""
    frame = with_actions(1)
    wrong = frame.assign(action=frame["action"].where(frame.index % 5 > 0, "call"))
    with pytest.raises(InputError, match=r"(rest|walk|call) happened in"):
        actions(wrong)
    assert actions(frame).effects == 2


def test_too_few_participants_are_refused() -> None:
    """With k coefficients more than k + 5 participants are needed: 8 are too few for 3, 9 are enough."""
    with pytest.raises(InputError, match=r"8 participants are too few for 3 coefficients; expected at least 9"):
        analysed(record(1, people=8))
    assert analysed(record(1, people=9)).df == 6


def test_a_coefficient_of_one_participant_is_refused() -> None:
    """A control that is 1 for one participant alone; for two it is not refused."""
    frame = record(1)
    with pytest.raises(InputError, match="rests on participant P03 alone"):
        analysed(frame.assign(site=frame["id"] == "P03"), controls="site")
    assert analysed(frame.assign(site=frame["id"].isin(["P03", "P04"])), controls="site").df == 27


def test_many_missing_outcomes_are_warned_of() -> None:
    """With more than a tenth of outcomes missing; with fewer a note counts them, with none nothing is said."""
    frame = record(1)
    rng = np.random.default_rng(3)
    many, few = (frame["y"].where(rng.random(len(frame)) > share) for share in (0.2, 0.05))
    with pytest.warns(UserWarning, match="outcomes are incomplete and left out; the estimate holds if"):
        found = analysed(frame.assign(y=many))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fewer, none = analysed(frame.assign(y=few)), analysed(frame)
    lost = int((many.isna() & (frame["eligible"] == 1)).sum())
    assert any(f"{lost} of" in note for note in found.notes)
    assert "incomplete" in fewer.notes[0]
    assert none.notes == ()


def test_many_incomplete_windows_are_warned_of() -> None:
    """A gap makes several windows incomplete; the study's end makes none."""
    frame = record(1)
    with pytest.warns(UserWarning, match="windows of 5 decision points are incomplete"):
        analysed(frame[frame["t"] % 7 != 0], lag=5, time="t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert analysed(frame, lag=5, time="t").notes == ()


def test_imputed_outcomes_are_left_out_and_counted() -> None:
    """What was filled in is no outcome: the estimate is that of the record without it."""
    frame = record(1)
    filled = np.arange(len(frame)) % 50 == 3
    invented = frame.assign(y=frame["y"].where(~filled, 100.0), filled=filled)
    with pytest.warns(UserWarning, match="12 imputed outcomes are left out"):
        found = analysed(invented, imputed="filled")
    without = analysed(frame.assign(y=frame["y"].where(~filled)))
    assert (found.estimate == without.estimate).all()
    assert analysed(invented.assign(filled=0), imputed="filled").rows > found.rows


WRONG: list[tuple[dict[str, Any], Callable[[pd.DataFrame], Any], str]] = [
    ({}, lambda f: f.to_numpy(), "expected a pandas DataFrame"),
    ({"outcome": "z"}, lambda f: f, "expected one of 'id', 't'"),
    ({"treatment": "stress"}, lambda f: f, "column stress holds 2; expected 0 or 1"),
    ({"probability": "id"}, lambda f: f, "column id holds something other than numbers"),
    ({"probability": 1.5}, lambda f: f, "probability is 1.5; expected a finite number > 0 and < 1"),
    ({"q": 0.0}, lambda f: f, "q is 0.0; expected"),
    ({"lag": 3}, lambda f: f, "lag = 3 needs time="),
    ({"lag": 3, "time": "t"}, lambda f: pd.concat([f, f[:1]]), "participant P00 has decision point 1 twice"),
    ({"lag": 3, "time": "p"}, lambda f: f, "p contains numbers that are not whole"),
    ({}, lambda f: f.assign(id=f["id"].where(f.index > 3)), "id is empty in some rows"),
    ({}, lambda f: f.assign(y=np.nan), "no eligible row has an outcome"),
    ({}, lambda f: f.assign(eligible=0), "no eligible row has an outcome"),
    ({"controls": "stress +"}, lambda f: f, r"controls 'stress \+' cannot be used"),
    ({"controls": "mood"}, lambda f: f, "`mood` is not present"),
    ({"controls": "{open('x').read()}"}, lambda f: f, "calls something other|is not allowed"),
    ({"controls": "t.__class__"}, lambda f: f, "cannot be used"),
    ({"controls": "exec('1')"}, lambda f: f, "calls something other than log"),
    ({"moderators": "stress | t"}, lambda f: f, "cannot be used"),
    ({"controls": "t"}, lambda f: f.assign(t=f["t"].where(f.index > 40)), "t has no value in"),
    ({"time": "t"}, lambda f: pd.concat([f, f[5:6]]), "participant P00 has decision point 6 twice"),
    ({}, lambda f: f.assign(y=0.1), r"y is 0\.1 in every eligible row; expected an outcome that varies"),
    ({}, lambda f: pd.concat([f, f["y"]], axis=1), "several columns named y"),
    ({}, lambda f: f.assign(y=pd.Timestamp("2027-01-01")), "column y holds dates"),
    ({"lag": 2, "time": "t"}, lambda f: f.assign(t=pd.Timestamp("2027-01-01")), "column t holds dates"),
    ({"controls": "stress + log(abs(y))"}, lambda f: f, "contains the outcome"),
    ({"moderators": "y"}, lambda f: f, "contains the outcome"),
    ({"moderators": "0"}, lambda f: f, "moderators '0' has no column"),
    ({"controls": "stress + I(2*stress)"}, lambda f: f, "cannot tell all coefficients apart"),
]


@pytest.mark.parametrize(("changes", "change", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_wrong_arguments_are_refused(changes: dict[str, Any], change: Callable[..., Any], message: str) -> None:
    """What was given and what was expected is said; the same frame without the mistake is analysed."""
    with pytest.raises(InputError, match=message):
        analysed(change(record(1)), **changes)


@pytest.mark.parametrize("kind", [str, bool, int])
@pytest.mark.parametrize("formula", ["mood", "C(mood)", "stress + stress:mood", "`mood`"])
def test_levels_that_are_missing_are_refused(kind: type, formula: str) -> None:
    """An empty cell is no level of its own, nor the first one; where none is empty the formula is used."""
    frame = record(1)
    mood = (frame["t"] % 2).astype(kind)
    assert analysed(frame.assign(mood=mood), controls=formula).rows > 0
    holes = frame.assign(mood=mood.astype(object).where(frame["t"] % 7 > 0, None))
    for where in ("controls", "moderators"):
        with pytest.raises(InputError, match=f"^{where} .*: mood has no value in .* eligible rows; expected one in"):
            analysed(holes, **{where: formula})


def test_probabilities_that_do_not_sum_to_1_are_refused() -> None:
    """So is an action without a column, and fewer than two columns."""
    frame = with_actions(1)
    with pytest.raises(InputError, match=r"probabilities sum to 1\.1"):
        actions(frame.assign(action_probability_rest=frame["action_probability_rest"] + 0.1))
    with pytest.raises(InputError, match="holds 'swim', an action without a column"):
        actions(frame.assign(action=frame["action"].where(frame.index > 0, "swim")))
    with pytest.raises(InputError, match="names 0 columns; expected one for each"):
        actions(frame, probabilities="prob_")
    with pytest.raises(InputError, match="did you mean 'walk'"):
        actions(frame, reference="wakl")


def test_columns_are_found_whatever_their_scale_or_type() -> None:
    """A control of tiny numbers is a control, and a column named by a number is found by its text."""
    frame, plain = record(1), analysed(record(1))
    assert analysed(frame.assign(stress=1e-9 * frame["stress"])).estimate[-1] == pytest.approx(plain.estimate[-1])
    assert (analysed(frame.rename(columns={"y": 0}), outcome="0").estimate == plain.estimate).all()
    with pytest.raises(InputError, match="weights are all 0"):
        plain.combination([0.0])


def test_relative_risks_have_the_same_refusals() -> None:
    """Records are read as for wcls."""
    frame = record(1).assign(y=lambda f: (f["y"] > 0).astype(int))
    with pytest.raises(InputError, match="outside the protocol's bounds"):
        emee(eligible_with("p", 1.0)(frame), available="eligible")
    assert emee(frame, available="eligible").effects == 1
