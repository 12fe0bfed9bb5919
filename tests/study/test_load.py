"""Files are read whatever system wrote them, refused by name where they cannot be, and documented in full."""

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel
from study_files import BASE, report_of

from opportune.errors import InputError
from opportune.study import Study, live, load_study, parse_study
from opportune.study.analysis import AnalysisTable, PrimaryTable
from opportune.study.people import ActionTable, NudgeTable, ParticipantsTable, RedcapTable, ScheduleTable, ServeTable
from opportune.study.schema import ContextsTable, PolicyTable, RewardTable, StudyFile, StudyTable
from opportune.study.trial import ArmsTable, ArmTable, LearningTable, PriorEffect, ProbabilitiesTable, StaffTable
from opportune.study.truth import Effect, WorldTable
from opportune.study.variables import DistributionTable, HistoryTable, VariableTable

DOCS = Path(__file__).parents[2] / "docs" / "study-file.md"


def test_unreadable_files(tmp_path: Path) -> None:
    """A file that is missing, a folder or no text is refused by its name."""
    with pytest.raises(InputError, match=r"nix\.toml does not exist; expected a study file"):
        load_study(tmp_path / "nix.toml")
    with pytest.raises(InputError, match="cannot be read"):
        load_study(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'[study]\nname = "caf\xe9"\n')
    with pytest.raises(InputError, match=r"latin\.toml, line 2: not UTF-8 text"):
        load_study(tmp_path / "latin.toml")


def test_windows_files_are_read(tmp_path: Path) -> None:
    """Line ends and byte-order mark of other systems make no difference."""
    (tmp_path / "win.toml").write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_study(tmp_path / "win.toml").settings == parse_study(BASE).settings


def blocks(kind: str) -> list[str]:
    """The fenced blocks of one kind in the documentation."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_the_documented_files_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole file in the documentation runs, every other part fits into it, and the Python code runs."""
    whole, *others, numeric = blocks("toml")
    unseen = next(part for part in others if "walks-live" in part)
    others.remove(unseen)
    data = parse_study(whole).replace(replicates=2).run(progress=False)
    assert data.sizes["policy"] == 4
    past = next(part for part in others if "history" in part)
    others.remove(past)
    assert len(others) == 6
    (tmp_path / "pilot.csv").write_text("sleep,mood\n7.5,good\n5,low\n6,good\n", encoding="utf-8")
    assert parse_study(numeric, source=str(tmp_path / "walks.toml")).continuous
    remembered = tomllib.loads(numeric)
    remembered["variables"] |= tomllib.loads(past)["variables"]
    Study(source=str(tmp_path / "walks.toml"), text=numeric, settings=StudyFile.model_validate(remembered)).check()
    assert live(parse_study(unseen)).policy.name == "PACE"
    for part in others:
        content = {**tomllib.loads(whole), **tomllib.loads(part)}
        Study(source="docs", text=whole, settings=StudyFile.model_validate(content)).check()
    (tmp_path / "my.toml").write_text(whole, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    exec(compile(code, str(DOCS), "exec"), {})


def test_the_documented_mistakes_are_reported() -> None:
    """The mistakes that the documentation shows are reported for its whole file with two changes."""
    whole, (shown,) = blocks("toml")[0], blocks("text")
    wrong = whole.replace("budgets = ", "budgts = ").replace("range = [0, 4]", "range = [4, 0]")
    lines = [f"opportune: error: {line}\n" for line in report_of(wrong, "my.toml")]
    assert "".join(lines) == shown


def test_every_key_is_documented() -> None:
    """Every section and every key of the study file is explained in the documentation."""
    parts = re.split(r"^## ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = {part.splitlines()[0]: part for part in parts}
    tables: dict[str, type[BaseModel]] = {
        "[study]": StudyTable, "[variables.NAME]": VariableTable, "[contexts]": ContextsTable,
        "[reward]": RewardTable, "[effects]": Effect, "[world]": WorldTable, "[[policies]]": PolicyTable,
        "[actions.NAME]": ActionTable, "[nudge]": NudgeTable, "[participants]": ParticipantsTable,
        "[schedule]": ScheduleTable, "[serve]": ServeTable, "[staff]": StaffTable, "[arms]": ArmsTable,
        "[probabilities]": ProbabilitiesTable, "[learning]": LearningTable, "[prior]": PriorEffect,
        "[analysis]": AnalysisTable, "[redcap]": RedcapTable,
    }  # fmt: skip
    assert len(tables) == len(StudyFile.model_fields) - 1
    assert "`schema = 1`" in DOCS.read_text(encoding="utf-8")
    for section, table in tables.items():
        for key in set(table.model_fields) - {"value", "settings"}:
            assert f"`{key}`" in text[section], f"{key} of {section}"
    for key in PrimaryTable.model_fields:
        assert f"`{key}`" in text["[analysis]"], f"{key} of primary"
    for key in ArmTable.model_fields:
        assert f"`{key}`" in text["[arms]"], f"{key} of an arm"
    for key in HistoryTable.model_fields:
        assert f"`{key}`" in text["Variables from the person's own past"], f"{key} of a history"
    for key in DistributionTable.model_fields:
        assert f"`{key}`" in text["[variables.NAME]"], f"{key} of a distribution"
