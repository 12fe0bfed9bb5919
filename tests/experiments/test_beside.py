"""The process beside: it answers, and what goes wrong there is raised here and says where it was."""

from collections.abc import Iterator

import pytest

from opportune.errors import InputError
from opportune.experiments import beside as beside_module
from opportune.experiments.beside import Beside, beside, early


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


def test_a_process_that_was_started_early_is_the_one_that_is_asked_for() -> None:
    """It is taken once; the next is another, and one that nobody took ends with the block that started it."""
    with early("opportune.experiments", "find"):
        waiting = beside_module._early["opportune.experiments", "find"]
        first, second = (beside("opportune.experiments", "find") for _ in range(2))
        assert first is waiting
        assert second is not waiting
        assert first.call("table").name == "table"
    assert first.process.poll() is None  # whoever takes it ends it
    for taken in (first, second):
        taken.end()
        taken.close()
    with early("opportune.experiments", "find"):
        unused = beside_module._early["opportune.experiments", "find"]
    assert unused.process.poll() is not None
    assert not beside_module._early
