"""What people call variables and values: labels, level names and digits of the file, on pages and in reports."""

from types import SimpleNamespace
from typing import Any

import pytest
from study_files import BASE, edit

from opportune.study import parse_study
from opportune.study.naming import value_name, variable_name

GERMAN = (
    edit(("range = [1, 3]", "range = [1, 3]\nlabel = 'Belastung'\nlevel_labels = ['gering', 'mittel', 'hoch']"))
    + """
[variables.sleep]
range = [0, 12]
distribution = { kind = "normal", mean = 7, sd = 1 }
digits = 1

[variables.weekend]
schedule = "weekend"
level_labels = ["Werktag", "Wochenende"]

[variables.mood]
levels = ["good", "poor"]
visibility = "reported"
question = "Wie geht es?"
answers = ["Gut", "Schlecht"]
"""
)


@pytest.mark.parametrize(
    ("name", "value", "said", "page"),
    [
        ("stress", 3, "hoch", "hoch"),
        ("stress", "1", "gering", "gering"),
        ("weekend", "weekend", "Wochenende", "Wochenende"),
        ("mood", "poor", "Schlecht", "Schlecht"),
        ("sleep", 7.25, "7.2", "7,2"),
        ("sleep", 7.0, "7.0", "7,0"),
        ("time", "am", "am", "am"),
    ],
)
def test_values_have_the_studys_words(name: str, value: Any, said: str, page: str) -> None:
    """Levels by their labels or answers, numbers with the variable's digits, on German pages with a comma."""
    study = parse_study(GERMAN)
    assert value_name(study.settings, name, value) == said
    pytest.importorskip("babel", reason="pages come with the extra `serve`")
    from opportune.service.pages.texts import Texts
    from opportune.service.pages.words import value_label

    running: Any = SimpleNamespace(study=study)
    assert value_label(running, name, value, Texts("de")) == page


def test_without_words_values_speak_for_themselves() -> None:
    """The control: a file without labels shows its own names and short numbers."""
    settings = parse_study(BASE).settings
    assert value_name(settings, "stress", 3) == "3"
    assert variable_name(settings, "day_of_study") == "day of study"
    assert variable_name(parse_study(GERMAN).settings, "stress") == "Belastung"
