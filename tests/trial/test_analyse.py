"""The analysis of a trial: from an export to estimates, tables and a page, with a sentence where there is no answer."""

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from exports import ARMS, STUDY, frame, write

from browser import open_browser
from opportune.cli.main import run
from opportune.errors import DataError, InputError
from opportune.inference import wcls
from opportune.inference.questions import Question
from opportune.report.analysis import report_table
from opportune.report.analysis_figures import coefficient_in_words
from opportune.service.commands.calls import GIVEN_UP
from opportune.service.export.exports import cell
from opportune.trial.export import read_export
from opportune.trial.fidelity import fidelity
from opportune.trial.run import Analysis, analyse, hide_arms, sentences


@pytest.fixture(scope="module")
def decisions() -> pd.DataFrame:
    return frame()


@pytest.fixture(scope="module")
def folder(decisions: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("analyse") / "export", decisions)


@pytest.fixture(scope="module")
def found(folder: Path) -> Analysis:
    return analyse(read_export(folder), policies=False)


def test_the_primary_analysis_is_the_files(found: Analysis, decisions: pd.DataFrame) -> None:
    """It is the one that [analysis] names, and the numbers are those of `wcls` on the same rows."""
    same = wcls(
        decisions, outcome="reward", treatment="nudge", probability="nudge_probability", participant="participant",
        available="eligible", controls="stress",
    )  # fmt: skip
    assert found.primary.estimates is not None
    assert found.primary.estimates.estimate[-1] == pytest.approx(same.estimate[-1])
    assert found.primary.estimates.se[-1] == pytest.approx(same.se[-1])
    said = sentences(found)
    assert said[0].startswith("Effect of a nudge on the reward: 0.")
    assert "fixed in the study file" in said[1]


def test_the_lasting_effect_has_the_files_lag(found: Analysis) -> None:
    """The other analyses are named as secondary, and Holm's p is theirs alone."""
    table = found.tables["effects"].set_index("analysis")
    assert table.loc["Effect of a nudge on the reward over 4 decision points", "kind"] == "secondary"
    assert np.isnan(table.loc["Effect of a nudge on the reward", "holm p"])
    later = table[table["kind"] == "secondary"]
    assert (later["holm p"] >= later["p"]).all()


def test_rows_for_r_give_the_same_numbers(found: Analysis) -> None:
    """The rows beside the page have what the R code names: a lagged outcome gives the lagged estimate."""
    lasting = next(finding for finding in found.findings if finding.key == "lasting")
    assert lasting.estimates is not None
    again = Question(outcome="reward_lag_4", controls=lasting.question.controls).answer(found.rows)
    assert again.estimate == pytest.approx(lasting.estimates.estimate)
    assert again.se == pytest.approx(lasting.estimates.se)
    assert "outcome = 'reward_lag_4'" in found.script
    assert found.script.count("MRTAnalysis::wcls") == sum(f.estimates is not None for f in found.findings)


def test_the_flow_counts_everyone(found: Analysis, decisions: pd.DataFrame) -> None:
    """Each stage has the rows that reach it, and reasons add up to the rest."""
    flow = found.tables["flow"].set_index("stage")["all"]
    assert flow["participants enrolled"] == 40
    assert flow["decision points"] == len(decisions)
    assert flow["nudged"] == decisions["nudge"].sum()
    assert found.tables["reasons"]["decision points"].sum() == len(decisions) - flow["eligible for a nudge"]


def test_chance_is_compared_with_the_record(folder: Path, tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Classes of the probability agree with what was done; the control: other probabilities do not, and are refused."""
    good = analyse(read_export(folder), policies=False).tables["calibration"]
    assert good["z"].abs().max() < 4.0
    assert good["expected"].sum() == pytest.approx(good["nudged"].sum(), rel=0.2)
    wrong = decisions.assign(nudge_probability=1.0 - decisions["nudge_probability"])
    bad = analyse(read_export(write(tmp_path / "wrong", wrong)), policies=False)
    assert bad.tables["calibration"]["z"].abs().max() > 4.0
    assert bad.primary.estimates is None
    assert "standard deviations away" in bad.primary.why
    assert "gives no estimate" in sentences(bad)[0]


def test_exports_of_earlier_versions_are_read(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Without the newer columns, or the study file, a sentence says what stands in for them."""
    old = read_export(write(tmp_path / "old", decisions.drop(columns="eligible"), None))
    assert old.decisions["eligible"].tolist() == decisions["eligible"].tolist()
    assert any("no column eligible" in note for note in old.notes)
    assert any("no study.toml" in note for note in old.notes)
    first = analyse(old, policies=False).primary
    assert first.question == Question(controls="1")
    assert first.estimates is not None


def test_nothing_is_said_of_what_has_no_answer(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Where no nudge was left to chance nothing is identified, nothing was looked at, and the table has its columns."""
    sure = decisions.assign(eligible=0, nudge_probability=decisions["nudge"].astype(float))
    made = analyse(read_export(write(tmp_path / "sure", sure)), policies=False)
    said = sentences(made)
    assert "gives no estimate" in said[0]
    assert said[1:] == ["No secondary analysis gives an answer."]
    assert "coefficient" in made.tables["effects"].columns


def test_a_warning_names_its_analyses(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """With many outcomes missing, the note says which analyses it is about, as a sentence."""
    holes = decisions.assign(reward=decisions["reward"].where(decisions.index % 5 > 0))
    notes = analyse(read_export(write(tmp_path / "holes", holes)), policies=False).notes
    assert any("outcomes are incomplete" in note and "(Effect of a nudge on the reward" in note for note in notes)
    assert all(note.endswith(".") for note in notes)


def test_coefficients_have_names_for_people() -> None:
    """Figures name an action, an arm, a level or a slope without the formula's own signs."""
    said = {"action[walk]": "walk", "arm[usual care]": "usual care", "nudge:stress[T.high]": "stress = high",
            "action[walk]:stress": "walk:stress", "nudge:step": "more per decision point"}  # fmt: skip
    assert {name: coefficient_in_words(name) for name in said} == said


def test_actions_that_were_not_left_to_chance(found: Analysis) -> None:
    """What cannot be answered is said in a sentence, not left out."""
    actions = next(finding for finding in found.findings if finding.key == "actions")
    assert actions.estimates is None
    assert "no probabilities of actions" in actions.why


def test_filled_in_rewards_are_left_out(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """A reward that never came, and was filled in, is no outcome, and is counted."""
    filled = decisions.assign(reward_imputed=(np.arange(len(decisions)) % 50 == 0).astype(int))
    made = analyse(read_export(write(tmp_path / "filled", filled)), policies=False)
    assert made.primary.estimates is not None
    assert any("imputed outcomes are left out" in note for note in made.primary.estimates.notes)
    assert made.tables["missing"].set_index("decision points").loc["all decision points", "filled in"] > 0


def test_texts_are_read_as_they_were(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """The apostrophe before what a spreadsheet would read as a formula is removed, one of the text's own stays."""
    texts = [["+walk", "-", "=1+1", "@home", "'tis", "rest", ""][i % 7] for i in range(len(decisions))]
    folder = write(tmp_path / "texts", decisions.assign(reason=[cell(text) for text in texts]))
    assert "'=1+1" in (folder / "decisions.csv").read_text(encoding="utf-8")
    assert read_export(folder).decisions["reason"].fillna("").tolist() == texts


def test_every_outcome_without_the_participant_is_counted(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Each outcome with which staff may give a nudge up is a row of fidelity, and so is one that nobody made."""
    folder = write(tmp_path / "called", decisions)
    outcomes = [*GIVEN_UP, "nothing"]
    calls = pd.DataFrame({"participant": "P001", "outcome": ["reached", *np.repeat(outcomes, 2)]})
    calls.to_csv(folder / "calls.csv", index=False)
    counted = fidelity(read_export(folder)).set_index("measure")["number"]
    assert counted[[words for words in counted.index if words.startswith("proposed, and ")]].tolist() == [2] * 4
    assert counted["proposed, and someone else answered"] == 2


def test_arms_are_compared(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Arms are in the flow, and compared; a nudge's effect comes from the arm that has nudges."""
    made = analyse(read_export(write(tmp_path / "arms", decisions, arms=True)), policies=False)
    assert set(made.tables["flow"].columns) == {"stage", "all", "usual care", "with calls"}
    arms = next(finding for finding in made.findings if finding.key == "arms")
    assert arms.estimates is not None
    assert arms.estimates.names[-1] == "arm[with calls]"
    assert made.primary.estimates is not None
    assert made.primary.estimates.participants == 20


def test_arms_are_compared_with_the_one_without_nudges(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """The comparison is adjusted for the baseline, also as the primary analysis, and R has the same reference."""
    text = ARMS.replace('estimand = "nudge", controls = "stress"', 'estimand = "arms"')
    made = analyse(read_export(write(tmp_path / "arms", decisions, text, arms=True, control="without")), policies=False)
    assert made.primary.why == ""
    assert made.primary.estimates is not None
    assert made.primary.estimates.names == ("Intercept", "age", "arm[with calls]")
    assert "relevel(factor(d$arm), ref = 'without')" in made.script
    assert "lm(reward ~ age + arm" in made.script


def test_several_primary_contrasts_are_adjusted(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Holm's p stands in the table and in the first sentences, apart from that of the secondary analyses."""
    text = STUDY.replace('controls = "stress"', 'controls = "stress", moderators = "stress"')
    made = analyse(read_export(write(tmp_path / "two", decisions, text)), policies=False)
    assert made.primary.estimates is not None
    table = made.tables["effects"]
    first = table[table["kind"] == "primary"]
    assert first["holm p"].tolist() == pytest.approx(list(made.primary.estimates.holm_p[-2:]))
    assert len(first) == 2
    said = sentences(made)
    assert "adjusted by Holm" in said[0]
    assert ", where stress is 0 or at the first level: " in said[0]
    assert said[2].startswith("A joint test that all 2 are 0 gives F(2, ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: pd.concat([d, d[3:4]]), "decision point 4 of participant P000 twice"),
        (lambda d: d.assign(participant=d["participant"].where(d.index > 0, 999)), "who is not in participants.csv"),
    ],
)
def test_rows_that_are_nobodys_or_there_twice_are_refused(
    tmp_path: Path, decisions: pd.DataFrame, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    """They would count where they must not; the same export without them is read."""
    folder = write(tmp_path / "bad", decisions)
    assert len(read_export(folder).decisions) == len(decisions)
    rows = change(decisions)
    rows.assign(participant=[f"P{number:03}" for number in rows["participant"]]).to_csv(
        folder / "decisions.csv", index=False
    )
    with pytest.raises(DataError, match=message):
        read_export(folder)


def test_a_blinded_report_does_not_name_arms(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """No file of it has an arm's name, or what would give it away; the control: the open one has both."""
    source = write(tmp_path / "arms", decisions, arms=True)
    for name, more in (("open", []), ("blind", ["--blinded"])):
        assert run(["analyse", str(source), "--out", str(tmp_path / name), "--no-policies", *more]) == 0
        texts = "".join(
            file.read_text(encoding="utf-8")
            for file in (tmp_path / name).iterdir()
            if file.suffix in {".html", ".csv", ".R"}
        )
        assert ("usual care" in texts) == (name == "open")
        assert (tmp_path / name / "walks-analysis-rows.csv").exists() == (name == "open")
    blind = analyse(hide_arms(read_export(source)), blinded=True, policies=False).tables["flow"].set_index("stage")
    assert blind.loc["nudged", ["arm A", "arm B"]].isna().all()


def test_a_blinded_report_does_not_tell_arms_apart(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Nudges by arm, and how many may have any, are left out; arms are compared with A, whichever that is."""
    text = ARMS.replace('estimand = "nudge", controls = "stress"', 'estimand = "arms", reference = "without"')
    source = read_export(write(tmp_path / "arms", decisions, text, arms=True, control="without"))
    blind = analyse(source, blinded=True, policies=False)
    assert blind.primary.estimates is not None
    assert blind.primary.estimates.names[-1] == "arm[arm B]"
    assert "nudges" not in blind.tables["course"]
    assert "nudges per participant, mean" not in set(blind.tables["budget"]["measure"])
    assert "arm A" in set(blind.tables["missing"]["decision points"])
    open_ = analyse(source, policies=False)
    assert open_.tables["course"].groupby("arm")["nudges"].sum()["without"] == 0
    spent = open_.tables["budget"].set_index("measure")["number"]
    assert spent["nudges per participant, mean"] == spent["nudges in total"] / 20
    seen = {hide_arms(source).decisions["arm"].iloc[0] for _ in range(40)}
    assert seen == {"arm A", "arm B"}  # nobody can work out the letters


@pytest.mark.parametrize("p", [0.0, 0.05, 1.0])
def test_a_broken_promise_is_refused(tmp_path: Path, decisions: pd.DataFrame, p: float) -> None:
    """Where the file promises 0.2, an eligible row with another probability is refused; without a promise it is not."""
    promise = STUDY + "\n[probabilities]\nnudge = 0.2\n\n[[policies]]\nkind = 'PACE'\n"
    first = decisions.index[decisions["eligible"] == 1][0]
    broken = decisions.assign(nudge_probability=decisions["nudge_probability"].where(decisions.index != first, p))
    for name, rows in (("kept", decisions), ("broken", broken)):
        found = analyse(read_export(write(tmp_path / name, rows, promise)), policies=False).primary
        assert ("1 of" in found.why and "outside the protocol's bounds" in found.why) == (name == "broken")
    assert analyse(read_export(write(tmp_path / "free", broken)), policies=False).primary.why == ""


def test_actions_that_were_drawn_are_valued(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Where actions were drawn, each has a value, and one that is always taken differs from the study's own."""
    drawn = decisions.assign(action_probability_rest=0.5, action_probability_walk=0.5)
    drawn["action"] = np.random.default_rng(1).choice(["rest", "walk"], len(drawn))
    drawn["reward"] += 2.0 * (drawn["action"] == "walk")
    made = analyse(read_export(write(tmp_path / "drawn", drawn)))
    table = made.tables["always"].set_index("action, always")
    assert list(table.index) == ["rest", "walk"]
    assert table.loc["walk", "difference, low"] > 0.5
    assert table.loc["walk", "SNIPS"] == pytest.approx(table.loc["walk", "mean reward"], abs=0.3)
    assert "always" not in analyse(read_export(write(tmp_path / "not", decisions)), policies=False).tables


def test_learning_together_is_told(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """Where participants shared a model it is said why there is no adaptive sandwich; elsewhere nothing is."""
    for pooled in (True, False):
        text = STUDY + f"\n[[policies]]\nkind = 'PACE'\npooled = {str(pooled).lower()}\n"
        notes = analyse(read_export(write(tmp_path / str(pooled), decisions, text)), policies=False).notes
        assert any("the adaptive sandwich is not reported" in note for note in notes) == pooled


def test_the_plan_stands_beside_what_came_out(folder: Path, tmp_path: Path) -> None:
    """What was planned for the primary analysis is compared; the plan of another study is refused."""
    plan = pd.DataFrame(
        {"question": ["effect of a nudge on the reward"], "design": ["PACE"], "participants": [40],
         "budget": [12.0], "power": [0.9], "estimate": [0.3], "se": [0.1], "eligible": [0.8]}
    )  # fmt: skip
    plan.to_csv(tmp_path / "plan.csv", index=False)
    table = analyse(read_export(folder), policies=False, plan=tmp_path / "plan.csv").tables["planned"]
    assert table.set_index("measure").loc["effect", "planned"] == 0.3
    plan.assign(question="something else").to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(InputError, match="expected the plan of this study"):
        analyse(read_export(folder), policies=False, plan=tmp_path / "other.csv")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    with pytest.raises(DataError, match="is not a CSV table; expected NAME-plan-power"):
        analyse(read_export(folder), policies=False, plan=tmp_path / "study.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.drop(columns="nudge_probability"), "has no column nudge_probability"),
        (lambda d: d.iloc[:0], "has no rows"),
    ],
)
def test_what_is_no_export_is_refused(tmp_path: Path, decisions: pd.DataFrame, change: object, message: str) -> None:
    """A folder without what an export has is refused by name."""
    assert callable(change)
    with pytest.raises(DataError, match=message):
        read_export(write(tmp_path / "bad", change(decisions)))
    with pytest.raises(InputError, match=r"there is no folder .*nothing; expected one that opportune export wrote"):
        read_export(tmp_path / "nothing")
    (tmp_path / "bad" / "decisions.csv").unlink()
    with pytest.raises(InputError, match=r"decisions\.csv does not exist"):
        read_export(tmp_path / "bad")


def test_one_coefficient_differs_and_two_differ(found: Analysis) -> None:
    """The number of clear secondary coefficients is told in the right grammar."""
    effects = found.tables["effects"]
    later = effects[effects["kind"] == "secondary"]
    for clear, told in (
        (0, "none of their coefficients differs"), (1, "1 of their coefficients differs from"),
        (2, "2 of their coefficients differ from"),
    ):  # fmt: skip
        p = [0.01 if row < clear else 0.9 for row in range(len(later))]
        tables = {**found.tables, "effects": later.assign(**{"holm p": p})}
        assert told in sentences(replace(found, tables=tables))[-1]


def test_too_few_eligible_points_are_told(tmp_path: Path, decisions: pd.DataFrame) -> None:
    """The reason is the number of points and participants, unless nudges were possible and not left to chance."""
    first = decisions["participant"] == decisions["participant"].iloc[0]
    one = decisions.assign(eligible=decisions["eligible"].where(first, 0))
    none = decisions.assign(eligible=0, ineligible_reason="run-in")
    sure = decisions.assign(eligible=1, nudge_probability=decisions["nudge"].astype(float))
    for name, given, why in (
        ("one", one.assign(ineligible_reason="run-in"), ", from 1 of 40 participants; expected some from at least 6"),
        ("none", none, "the eligible decision points are too few: 0 of "),
        ("sure", sure, "a nudge was never left to chance"),
    ):
        primary = analyse(read_export(write(tmp_path / name, given, None)), policies=False).primary
        assert why in primary.why, name


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last lines are the report's path and what was found; every table lies beside it; policies are simulated."""
    assert run(["analyse", str(folder), "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(tmp_path / "walks-analysis.html")
    assert lines[1].startswith("Effect of a nudge on the reward: ")
    page = (tmp_path / "walks-analysis.html").read_text(encoding="utf-8")
    for file in tmp_path.glob("*.csv"):
        assert file.name in page
        with file.open(newline="", encoding="utf-8") as opened:
            assert len(list(csv.reader(opened))) > 1
    assert "PACE, 24 nudges each" in page or "cannot be said" in page
    order = [page.index(f'id="{name}"') for name in
             ("found", "flow", "fidelity", "missing", "effects", "policies", "consort", "again")]  # fmt: skip
    assert order == sorted(order)


def test_the_command_needs_one_source(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a folder nor a database is refused, as are both."""
    assert run(["analyse"]) == 2
    assert run(["analyse", "export", "--db", "sqlite:///x.db"]) == 2
    assert "expected either DIR" in capsys.readouterr().err


@pytest.mark.browser
def test_the_page_fits_and_prints(folder: Path, tmp_path: Path) -> None:
    """Nothing scrolls sideways on a phone, figures load, and the page prints on a few sheets."""
    assert run(["analyse", str(folder), "--out", str(tmp_path), "--no-policies"]) == 0
    with open_browser() as browser, browser.new_context(viewport={"width": 360, "height": 800}) as context:
        page = context.new_page()
        page.goto((tmp_path / "walks-analysis.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        page.pdf(path=tmp_path / "page.pdf", format="A4")
    sheets = len(re.findall(rb"/Type\s*/Page[^s]", (tmp_path / "page.pdf").read_bytes()))
    assert 4 <= sheets <= 20


def test_the_study_file_names_the_primary_analysis() -> None:
    """The file of these tests fixes it."""
    assert 'primary = { estimand = "nudge"' in STUDY


def test_an_unknown_value_is_explained_beside_the_table() -> None:
    """A sentence has no room in a column of numbers; without one, the caption stands alone."""
    known = {
        "action, always": "rest", "mean reward": 1.0, "se": 0.1, "low": 0.8, "high": 1.2, "SNIPS": 1.0,
        "difference from the record": 0.2, "difference, low": 0.0, "difference, high": 0.4,
        "effective sample size": 50.0, "why there is no value": "",
    }  # fmt: skip
    unknown = {**dict.fromkeys(known, float("nan")), "action, always": "walk", "why there is no value": "too few rows"}
    table = report_table("always", pd.DataFrame([known, unknown]), "Values")
    assert table.caption == "Values. No value for “walk”: too few rows"
    assert table.rows[1] == ["walk", *[None] * (len(table.columns) - 1)]
    assert report_table("always", pd.DataFrame([known]), "Values").caption == "Values"
