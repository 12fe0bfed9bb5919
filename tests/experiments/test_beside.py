"""The process beside: it answers, and what goes wrong there is raised here and says where it was."""

from collections.abc import Iterator

import pytest

from opportune.errors import InputError
from opportune.experiments.beside import Beside


@pytest.fixture
def finding() -> Iterator[Beside]:
    """A process that finds experiments by their names."""
    other = Beside("opportune.experiments", "find")
    yield other
    other.end()
    other.close()


def test_answers_and_errors(finding: Beside) -> None:
    """One call after the other is answered; a refusal is the sentence alone, an error of ours comes with its place."""
    assert finding.call("table").name == "table"
    with pytest.raises(InputError, match=r"^experiment is 'nothing'; expected one of ") as refused:
        finding.call("nothing")
    assert not hasattr(refused.value, "__notes__")
    assert finding.call("regret").name == "regret"


def test_where_it_went_wrong() -> None:
    """An error that is no refusal carries the other process's traceback, for whoever has to mend it."""
    other = Beside("opportune.experiments.writer", "score")
    try:
        with pytest.raises(AttributeError) as raised:
            other.call("no record")
        assert "in score\n" in raised.value.__notes__[0]
    finally:
        other.end()
        other.close()
