"""A whole plan: its words, its tables, and that it goes on where it was interrupted."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plan_studies import SMALL, edited

from opportune.errors import InputError
from opportune.planning import Plan, plan, simulated, uncertainty
from opportune.planning.budget import most
from opportune.planning.phrases import number, offered, ordinal, who
from opportune.planning.words import assumptions_table, methods, recommendation, sentence
from opportune.report.plan_figures import pictures
from opportune.report.plan_tables import report_tables
from opportune.simulation import simulate
from opportune.study import parse_study


def small_plan(out: Path, *changes: tuple[str, str], **given: Any) -> Plan:
    return plan(edited(*changes), out=out, **{"replicates": 20, "target": 0.6, "progress": False, **given})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return small_plan(tmp_path_factory.mktemp("plan"))


def test_the_sentence_at_the_end(made: Plan) -> None:
    """First what the file's budget brings, then usual and busy days, then how many calls would be worth it."""
    budget = made.least.budget
    said = sentence(made)
    assert made.least.reached
    assert said.startswith(offered(made))
    assert "on the busiest day in twenty." in said
    assert (
        f" {budget} calls per participant ({budget * 12} in all) bring 60% of the most that calls bring here; " in said
    )
    assert said.endswith(f"the {ordinal(budget + 1)} call adds {number(made.one_more.mean)} minutes per day.")


def test_the_files_budget_is_answered_for_first(made: Plan) -> None:
    """In the study's unit, beside no limit and the best simple alternative, with hours of staff; by hand."""
    outcome = made.values.outcome["PACE"]
    gain = outcome[8.0] - made.values.never
    offer, said = made.offer, offered(made)
    assert offer.budget == 8.0
    assert offer.gain.mean == pytest.approx(gain.mean())
    assert offer.unlimited.mean == pytest.approx((outcome[24.0] - made.values.never).mean())
    hours = made.values.nudges["PACE"][8.0].mean() * 12 * 6 / 60
    assert offer.hours == pytest.approx(hours)
    assert said.startswith(f"8 calls per participant bring {number(gain.mean())} minutes a day more than none, ")
    assert f"for {round(hours)} hours of staff; unlimited calls would bring " in said
    assert f"An hour of staff gains {number(gain.mean() * 12 * 12 / hours)} minutes." in said
    assert "The best simple alternative, calls " in said
    assert offer.lead.mean == pytest.approx(offer.gain.mean - offer.simple_gain.mean)
    assert offer.lead.low > 0.0, "the rule is worth having here"


def test_the_served_budget_is_the_one_that_is_planned(tmp_path: Path) -> None:
    """What [serve] says counts, also where it is not among the budgets to try; workload and power are for it."""
    found = small_plan(tmp_path, ("[[policies]]", "[serve]\npolicy = 'PACE'\nbudget = 3\n\n[[policies]]"), replicates=4)
    assert (found.offer.budget, found.budget) == (3.0, 3)
    assert 3.0 in found.settings.budgets
    assert set(found.power.table["budget"]) >= {3.0}
    assert found.workload.work.total <= 3 * 12 + 1e-9


def test_who_gets_nudges_and_why_is_said(made: Plan) -> None:
    """A sentence for each variable the rule sees, with each level's share and what fresh advice brings there."""
    first, *sentences = who(made)
    assert "where it expects fresh advice to help most" in first
    stress = next(text for text in sentences if text.startswith("stress"))
    levels = made.fairness.levels[made.fairness.levels["variable"] == "stress"].set_index("level")
    assert stress.startswith("stress: most calls come when it is 2, where fresh advice helps most: 0 (")
    for level in ("0", "1", "2"):
        assert f"{level} ({levels.loc[level, 'rate']:.1%}" in stress
    worth = made.worth[made.worth["variable"] == "stress"].set_index("level")["worth"]
    assert worth["2"] > worth["0"]


def test_sentences_for_other_ends(made: Plan) -> None:
    """Where the target is out of reach, or nudges bring nothing, the sentence says so."""
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    short = Plan(**{**fields, "least": made.least._replace(reached=False, most=0.5)})
    assert (
        "Under PACE no number of calls brings 60% of the most that calls bring here (a call at every allowed "
        "decision); at most it reaches 50%" in sentence(short)
    )
    useless = Plan(**{**fields, "least": made.least._replace(useful=False)})
    assert "the most that calls bring here cannot be told from 0" in sentence(useless).lower()


def test_the_end_of_the_scale_is_named(made: Plan) -> None:
    """The report says which of the two ends brings most: the other one where a call at every decision is worse."""
    caption = report_tables(made)["value"].caption
    assert "share of the most that calls bring here (a call at every allowed decision)" in caption  # the control
    assert made.robustness["share"].notna().all()
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    worse = made.values._replace(always=made.values.never + 0.01)
    caption = report_tables(Plan(**{**fields, "values": worse}))["value"].caption
    assert "share of the most that calls bring here (PACE without a limit on its budget)" in caption


def test_the_recommendation_says_what_half_would_bring(made: Plan) -> None:
    """A target on the flat part of the curve may be dear: what half the budget brings stands beside it."""
    half = next(text for text in recommendation(made) if text.startswith("Half as many"))
    budget = made.least.budget
    value = made.value[made.value["policy"] == "PACE"].set_index("budget")["share"]
    expected = np.interp(max(1, round(budget / 2)), value.index, value)
    assert f"would bring {expected:.0%} of the most that calls bring here" in half
    assert f"{budget} bring {value[float(budget)]:.0%}." in half


def test_the_recommendation_says_where_the_curve_is_flat(made: Plan) -> None:
    """Where half the budget brings nearly as much, the smaller number is offered; not where it brings much less."""
    flat = "The curve is nearly flat in between"
    assert not any(flat in text for text in recommendation(made))
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    level = {b: made.values.always * 0.5 + made.values.never * 0.5 for b in made.values.outcome["PACE"] if b > 0}
    outcome = {**made.values.outcome, "PACE": {0.0: made.values.never, 1.0: level[24.0], **level}}
    late = Plan(**{**fields, "values": made.values._replace(outcome=outcome)})
    assert any(flat in text for text in recommendation(late))


def test_the_recommendation_names_the_best_policy(made: Plan) -> None:
    """Which of the file's policies does best with the same budget, by how much; another than the plan's is offered."""
    said = next(text for text in recommendation(made) if text.startswith("Of the file’s policies"))
    assert said.startswith("Of the file’s policies PACE does best at every budget that was tried; with 8 it is ")
    assert said.endswith("ahead of naive.")
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    swapped = {"PACE": made.values.outcome["naive"], "naive": {**made.values.outcome["PACE"]}}
    other = Plan(**{**fields, "values": made.values._replace(outcome=swapped)})
    said = next(text for text in recommendation(other) if text.startswith("Of the file’s policies"))
    assert said.endswith(": consider naive.")
    alone = made.values._replace(outcome={"PACE": made.values.outcome["PACE"]})
    assert not any(
        text.startswith("Of the file’s") for text in recommendation(Plan(**{**fields, "values": alone}))
    )  # one policy has nothing to be compared with


def test_the_recommendation_says_when_more_would_not_help(made: Plan) -> None:
    """Only where no budget reaches the target: how many the policy makes when nothing limits it, and why."""
    assert not any(text.startswith("Without a limit on its budget") for text in recommendation(made))
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    short = Plan(**{**fields, "least": made.least._replace(reached=False, most=0.5)})
    said = next(text for text in recommendation(short) if text.startswith("Without a limit on its budget"))
    made_at_most = number(made.values.nudges["PACE"][24.0].mean())
    assert f"Without a limit on its budget, PACE makes about {made_at_most} calls each in 24" in said


def test_the_recommendation_warns_where_nothing_can_be_estimated(made: Plan) -> None:
    """PACE as it is has probabilities of 0 and 1: the recommendation says what that means and what a coin would buy."""
    warning = recommendation(made)[-1]
    assert "cannot show the effect of a nudge on the reward" in warning
    assert "since a nudge was never left to chance" in warning
    assert "“PACE, candidates" in warning
    assert "With fewer than 20 participants" in warning


def test_every_table_has_its_uncertainty(made: Plan) -> None:
    """Tables are whole, say what they are, and read back from CSV as they were."""
    tables = made.tables()
    for name in (
        "value",
        "workload",
        "workload-by-weekday",
        "caps",
        "participants",
        "levels",
        "times",
        "robustness",
    ):
        assert len(tables[name]), name
        assert any("low" in column for column in tables[name].columns), name
    assert made.value["budget"].max() == 24
    for name, one in report_tables(made).items():
        assert one.caption, name
        assert all(len(row) == len(one.columns) for row in one.rows), name
    assert set(assumptions_table(made)["assumption"]) >= {"participants", "effects", "a call is answered"}
    assert any("in the order of proposals" in text for text in methods(made))
    other = replace(made.settings, study=parse_study(SMALL.replace('name = "call"', 'name = "app message"')))
    assert any("An app message is charged to the budget" in text for text in methods(replace(made, settings=other)))


def test_figures_are_drawn(made: Plan) -> None:
    """Every answer has its figure, with a caption and words for those who cannot see it."""
    found = pictures(made)
    names = {picture.name for picture in found}
    assert names >= {"plan-value", "plan-workload", "plan-fairness", "plan-robustness", "plan-power"}
    assert all(picture.caption and picture.alt and picture.figure.axes for picture in found)


def test_a_plan_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Plan) -> None:
    """After Ctrl-C the finished parts are kept and not simulated again, and the answer is that of one go."""
    calls: list[str] = []
    real = simulate

    def counted(*arguments: Any, **given: Any) -> Any:
        calls.append("")
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(*arguments, **given)

    monkeypatch.setattr(simulated, "simulate", counted)
    with pytest.raises(KeyboardInterrupt):
        small_plan(tmp_path)
    assert len(list(tmp_path.rglob("*.nc"))) == 4
    before = len(calls)
    again = small_plan(tmp_path)
    first_go = len(calls) - before + 4
    assert sentence(again) == sentence(made)
    pd.testing.assert_frame_equal(again.value, made.value)
    assert not list(tmp_path.rglob("*.nc"))  # what was kept is no longer needed
    calls.clear()
    calls += [""] * 10
    small_plan(tmp_path / "whole")
    assert len(calls) - 10 == first_go  # the control: in one go all parts are simulated, none twice


def test_damaged_parts_are_simulated_again(tmp_path: Path, made: Plan) -> None:
    """A part that was cut on disk is not believed."""
    small_plan(tmp_path, keep_parts=True)
    for path in tmp_path.rglob("*.nc"):
        path.write_bytes(path.read_bytes()[:-20])
    assert sentence(small_plan(tmp_path)) == sentence(made)


def test_another_study_does_not_take_the_parts(tmp_path: Path) -> None:
    """Parts belong to one study file and one set of settings."""
    small_plan(tmp_path, keep_parts=True)
    folders = {path.parent for path in tmp_path.rglob("*.nc")}
    small_plan(tmp_path, ("response_rate = 0.9", "response_rate = 0.5"), keep_parts=True)
    assert len({path.parent for path in tmp_path.rglob("*.nc")} - folders) == 1


def test_numbers_of_any_size() -> None:
    """Numbers for people have as many digits as count."""
    assert [number(x) for x in (0.4, 0.0123, 12.3, 1234.5, 0.0, -0.5, math.nan)] == [
        "0.40", "0.012", "12", "1,234", "0", "−0.50", "–",
    ]  # fmt: skip
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th",
    ]  # fmt: skip


def test_continuous_studies_are_planned(tmp_path: Path) -> None:
    """A variable that may be any number is no hindrance: it has classes, and the effect of a nudge is looked for."""
    text = SMALL.replace(
        "range = [0, 2]\nprobabilities = [0.5, 0.3, 0.2]", "range = [0, 2]\ndistribution = { kind = 'uniform' }"
    )
    found = plan(parse_study(text), out=tmp_path, replicates=6, progress=False, participants=6)
    assert found.fairness.levels["variable"].value_counts().to_dict() == {"stress": 4, "weekend": 2}
    assert "contexts misstated" in set(found.robustness["assumption"])
    assert found.power.primary in set(found.power.table["effect"])


def test_shared_budgets_are_planned(tmp_path: Path) -> None:
    """With budget_shared the whole plan is for one budget of all."""
    found = small_plan(tmp_path, ("budgets = [4, 8]", "budgets = [4, 8]\nbudget_shared = true"), replicates=6)
    assert set(found.workload.summary["budget"]) == {"shared"}
    assert found.values.nudges["PACE"][4.0].mean() == pytest.approx(4.0, abs=0.1)
    assert set(found.fairness.participants["budget"]) == {"shared"}
    assert any(text.startswith("Shared budget: ") for text in methods(found))


def test_leavers_leave_a_shared_budget_to_others(tmp_path: Path) -> None:
    """Where half leave early, those who stay get more of a shared budget than of one of their own."""
    leave = ("enrolment_days = 3", "enrolment_days = 3\ndropout = 0.5")
    tables = []
    for shared in ("", "\nbudget_shared = true"):
        changes = (leave, ("budgets = [4, 8]", "budgets = [4, 8]" + shared))
        found = small_plan(
            tmp_path / f"{len(shared)}", *changes, replicates=6, budgets=[4], participants=20, target=0.3
        )
        tables.append(found.fairness.participants.set_index(["budget", "participants"])["nudges"] / found.least.budget)
        assert np.isfinite(found.robustness["outcome"]).all()
    own, together = tables
    assert together["shared", "highest tenth"] > 1.2 * own["own", "highest tenth"]
    assert together["shared", "all"] > own["own", "all"]


def test_a_study_in_which_nudges_bring_nothing(tmp_path: Path) -> None:
    """Participants who open the app at every decision need no nudge: that is the answer, and everything is drawn."""
    found = small_plan(tmp_path, ("response_rate = 0.9", "response_rate = 0.9\nopen_rate = 1.0"), replicates=6)
    assert not found.least.useful
    assert "The most that calls bring here cannot be told from 0: " in sentence(found)
    value = report_tables(found)["value"]
    shares = {row[value.columns.index("share")] for row in value.rows if row[1] != 0}
    assert shares == {"no sure gain"}
    gains = [row[value.columns.index("more than without calls")] for row in value.rows]
    assert gains[0] is None, "without calls there is nothing to compare"
    assert found.robustness["share"].isna().all()
    assert "This difference could be chance." in offered(found)
    assert found.workload.work.total == 0.0
    assert len(recommendation(found)) == 2
    assert len(pictures(found)) == 7
    assert all(one.rows for name, one in report_tables(found).items() if name != "levels")


def test_what_is_no_study_is_refused(tmp_path: Path) -> None:
    """`plan` takes a Study."""
    with pytest.raises(InputError, match="study is str; expected a Study"):
        plan("my.toml", out=tmp_path)  # type: ignore[arg-type]


def test_what_a_pilot_left_unsure_is_told(tmp_path: Path) -> None:
    """With se in the file the report has a table of it and the recommendation a sentence; without it neither."""
    effect = '"action=walk:stress" = { mean = 1.2, sd = 0.2'
    found = small_plan(tmp_path, (f"{effect} }}", f"{effect}, se = 0.3 }}"), replicates=6, budgets=[4])
    said = [text for text in recommendation(found) if text.startswith("The means of effects are themselves uncertain")]
    assert len(said) == 1
    assert "calls would be needed for the same share" in said[0]
    assert [row[0] for row in report_tables(found)["unsure"].rows][-1] == "calls needed for the plan’s share"
    assert len(found.tables()["unsure"]) == 5
    ends = found.unsure.set_index("measure").loc["share"]
    assert f"bring {ends['low']:.0%} to {ends['high']:.0%}." in said[0]  # the control
    some = found.unsure.assign(low=found.unsure["low"].where(found.unsure["measure"] != "share", -math.inf))
    poor = Plan(**{**{name: getattr(found, name) for name in found.__dataclass_fields__}, "unsure": some})
    assert any(f"bring nothing that can be told from 0 to {ends['high']:.0%}." in text for text in recommendation(poor))


def test_nothing_is_said_of_what_is_sure(made: Plan) -> None:
    """The control: effects without se."""
    assert not any("themselves uncertain" in text for text in recommendation(made))
    assert "unsure" not in report_tables(made)


def test_means_that_may_be_of_no_use_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws of the means in which calls bring nothing have no share: they are the lowest, and said in words."""
    effect = '"action=walk:stress" = { mean = 1.2, sd = 0.2'
    draw = uncertainty._draw

    def useless_in_a_quarter(settings: Any, simulations: Any, least: Any, number: int, shift: Any) -> dict[str, Any]:
        with monkeypatch.context() as patch:
            patch.setattr(uncertainty, "most", lambda never, *ends: most(never, *(ends if number % 4 else [never] * 2)))
            return draw(settings, simulations, least, number, shift)

    monkeypatch.setattr(uncertainty, "_draw", useless_in_a_quarter)
    found = small_plan(tmp_path, (f"{effect} }}", f"{effect}, se = 0.3 }}"), replicates=6, budgets=[4])
    table = found.unsure.set_index("measure")
    assert table.loc["share", "low"] == -math.inf
    assert 0.0 < table.loc["share", "high"] < 1.5  # the control: the others have one
    assert (table["low"] <= table["middle"]).all()
    assert (table["middle"] <= table["high"]).all()
    rows = {str(row[0]): row for row in report_tables(found)["unsure"].rows}
    share = rows[f"share of the most that calls bring here that {found.least.budget:,} bring"]
    assert str(share[2]).startswith("no sure gain to ")
