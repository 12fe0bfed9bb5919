"""Reads a study file: a path or a text becomes a checked study, or an error that lists all mistakes."""

from pathlib import Path

from opportune import checks
from opportune.errors import InputError
from opportune.study.build import Study
from opportune.study.checks import find_errors
from opportune.study.content import MOST_BYTES, parse_toml
from opportune.study.examples import example
from opportune.study.lines import key_lines
from opportune.study.messages import list_errors
from opportune.study.partial import read


def load_study(path: str | Path) -> Study:
    """Read and check a study file; raises `InputError` that lists all mistakes, one per line."""
    source = checks.path("path", path)
    try:
        with source.open("rb") as file:
            content = file.read(4 * MOST_BYTES + 1)
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise InputError(f"{source} does not exist; expected a study file in TOML") from None
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror}; expected a study file in TOML") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}, line {line}: not UTF-8 text; expected a study file in TOML") from None
    return parse_study(text, source=str(source))


def example_study(name: str) -> Study:
    """A study from the package's examples: "stress-messages", "cardiac-calls", "oralytics" or "heartsteps"."""
    return parse_study(example(name), source=f"{name}.toml")


def parse_study(text: str, *, source: str = "study.toml") -> Study:
    """Read and check the text of a study file; errors call it `source`."""
    source = str(checks.path("source", source))
    if not isinstance(text, str):
        raise InputError(f"text is {checks.brief(text)}; expected the text of a study file")
    reading = read(parse_toml(source, text))
    study = Study(source=source, text=text, settings=reading.settings)
    found, waiting = find_errors(study)
    known = {place for place, _ in reading.errors}
    if errors := reading.errors + [(place, message) for place, message in found if place not in known]:
        errors = [(reading.place_in_file(place), message) for place, message in errors]
        raise InputError(list_errors(source, key_lines(text), errors, waiting=waiting))
    return study
