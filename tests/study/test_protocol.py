"""`opportune protocol`: what a study file says, for ethics boards; what it does not say is a gap, and never made up."""

from importlib.resources import files
from pathlib import Path

import pytest

from opportune.cli import main as cli
from opportune.study import parse_study
from opportune.study.protocol import GAP, protocol

EXAMPLE = files("opportune.study").joinpath("examples", "stress-messages.toml").read_text(encoding="utf-8")
ITEMS = (
    "SPIRIT-AI 11a i", "SPIRIT-AI 11a ii", "SPIRIT-AI 11a iii", "11a iv", "SPIRIT-AI 11a v, vi", "SPIRIT-AI 10",
    "SPIRIT-AI 22", "SPIRIT-AI 29", "6a", "SPIRIT 16", "SPIRIT 17", "SPIRIT 20", "SPIRIT 21",
)  # fmt: skip


def written(text: str) -> str:
    """The document of a study file."""
    return protocol(parse_study(text, source="my.toml"))


def gaps(document: str) -> list[str]:
    """What is left to write."""
    return [line for line in document.splitlines() if GAP in line]


def test_every_item_has_its_place() -> None:
    """With the file's own words: actions, variables, questions, times."""
    document = written(EXAMPLE)
    assert [item for item in ITEMS if item not in document] == []
    for told in ("Go for a short walk", "How is your mood?", "09:00, 18:00", "Planned: 100", "20 calls"):
        assert told in document, told


@pytest.mark.parametrize(
    ("line", "word", "gone"),
    [
        ('unit = "points"', "`unit` in [reward]", "decision: points."),
        ('times = ["09:00", "18:00"]', "`times` in [schedule]", "09:00, 18:00"),
        ("planned = 100", "`planned` in [participants]", "Planned: 100"),
    ],
)
def test_what_is_taken_from_the_file_becomes_a_gap(line: str, word: str, gone: str) -> None:
    """One more than before, and nothing in its place."""
    before, after = written(EXAMPLE), written(EXAMPLE.replace(line, ""))
    assert line in EXAMPLE
    assert gone in before
    assert gone not in after
    assert len(gaps(after)) == len(gaps(before)) + 1
    assert not any(word in text for text in gaps(before))
    assert any(word in text for text in gaps(after))


def test_what_a_file_says_of_safety_and_people_is_in_it() -> None:
    """Second factors, who is unblinded, what is never given."""
    text = EXAMPLE.replace("[serve]\n", '[serve]\nsecond_factor = "nobody"\nunblinded = ["dr. who"]\n')
    document = written(text)
    assert "dr. who" in document
    assert any("why nobody needs a second factor" in line for line in gaps(document))
    bounded = written(EXAMPLE.replace("[reward]\n", "[reward]\nbounds = [0, 10]\n"))
    assert "Outcomes outside of 0 to 10 are rejected" in bounded


def test_least_probabilities_are_those_in_force() -> None:
    """With `schema = 1` the defaults are stated; without it, or under a rule that takes none, nothing is claimed."""
    document = written(EXAMPLE)
    assert "Least probability of each allowed recommendation: 0.02." in document
    assert "Least probability of a call: 0.2." in document
    old = written(EXAMPLE.replace("schema = 1 ", "# "))
    assert "Least probability of a call: not set." in old
    assert "Least probability of each allowed recommendation: not set." in old
    other = written(EXAMPLE.replace('policy = "PACE"', 'policy = "PD2"'))
    assert "Least probability of a call: not set." in other


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output, or into a file; how many gaps are left is said beside it."""
    study = tmp_path / "my.toml"
    study.write_text(EXAMPLE, encoding="utf-8")
    assert cli.run(["protocol", str(study)]) == 0
    shown, said = capsys.readouterr()
    assert shown == written(EXAMPLE)
    assert said == f"gaps left: {len(gaps(shown)) - 1}\n"
    assert cli.run(["protocol", str(study), "--out", str(tmp_path / "protocol.md")]) == 0
    assert (tmp_path / "protocol.md").read_text(encoding="utf-8") == shown
    assert cli.run(["protocol", str(tmp_path / "none.toml")]) == 2
