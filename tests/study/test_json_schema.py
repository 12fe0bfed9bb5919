"""The JSON Schema accepts what the package accepts, and shows editors what is wrong."""

import datetime as dt
import json
import tomllib
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from study_files import BASE, edit
from test_trial import TRIAL

from opportune.cli import main as cli
from opportune.study.examples import EXAMPLES, example
from opportune.study.json_schema import json_schema

VALIDATOR = Draft202012Validator(json_schema())


def plain(value: Any) -> Any:
    """A file's content as JSON has it."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value.isoformat() if isinstance(value, dt.date) else value


def errors(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(plain(tomllib.loads(text)))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_shipped_files_fit_the_schema(name: str) -> None:
    """Every example is right by the schema."""
    Draft202012Validator.check_schema(json_schema())
    assert errors(example(name)) == []


def test_a_trial_fits_the_schema() -> None:
    """All tables of a trial are right by the schema."""
    assert errors("schema = 1\n" + BASE + TRIAL) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed = 3", "sead = 3"), ("horizon = 40", "horizon = 0"), ('"PD2"', '"PD3"'), ("[4, 8]", "4"),
        ('"stress" = -0.3', '"stress" = "big"'), ('"stress" = -0.3', '"stress" = { value = 1 }'),
        ("open_rate = 0.1", "open_rate = { am = 2 }"), ('"adaptive"', '"adaptiv"'),
    ],
)  # fmt: skip
def test_mistakes_do_not_fit(old: str, new: str) -> None:
    """Unknown keys, unknown names and values out of range are wrong by the schema."""
    assert errors(edit((old, new)))


def test_settings_of_rules_are_known() -> None:
    """Settings that only a rule's own class declares are keys of [[policies]]."""
    assert errors(edit(('"PD2"\nscale = "adaptive"', '"PACE"\ndebt = false'))) == []


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    """`opportune schema` prints the schema, with what is expected of each key."""
    assert cli.run(["schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json_schema()
    assert printed["$defs"]["StudyTable"]["properties"]["horizon"]["description"].startswith("a whole number >= 1")


def test_examples_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`opportune example` lists the files, with a name it prints one, and an unknown name is refused."""
    assert cli.run(["example"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(EXAMPLES)
    assert cli.run(["example", "stress-messages"]) == 0
    assert capsys.readouterr().out == example("stress-messages")
    assert cli.run(["example", "stress"]) == 2
    assert "expected one of 'stress-messages'" in capsys.readouterr().err
