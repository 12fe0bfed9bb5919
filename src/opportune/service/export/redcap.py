"""Exports for REDCap: a data dictionary to upload, and files to import.

Each participant is a record; decisions are a repeating instrument, numbered by decision point. In REDCap, upload the
dictionary, make the instrument `decisions` repeatable, then import participants and decisions, in this order.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator

from opportune.service.export.columns import Column
from opportune.service.export.exports import cell, columns_of
from opportune.service.export.rows import rows_of
from opportune.service.record.database import Database
from opportune.service.record.queries import study_in_force

HEADER = (
    "Variable / Field Name", "Form Name", "Section Header", "Field Type", "Field Label",
    "Choices, Calculations, OR Slider Labels", "Field Note", "Text Validation Type OR Show Slider Number",
    "Text Validation Min", "Text Validation Max", "Identifier?", "Branching Logic (Show field only if...)",
    "Required Field?", "Custom Alignment", "Question Number (surveys only)", "Matrix Group Name", "Matrix Ranking?",
    "Field Annotation",
)  # fmt: skip
RECORD = "record_id"
REPEATED = ("redcap_repeat_instrument", "redcap_repeat_instance")
FORMS = {"participants": "p", "decisions": "d"}
"""The instruments and the prefixes of their fields, whose names must be unique within a project."""
KINDS = {"integer": "integer", "number": "number", "time": "datetime_seconds_ymd"}


def field_name(form: str, column: str) -> str:
    """The name of a column in REDCap: lower-case letters, digits and underscores."""
    return f"{FORMS[form]}_{re.sub(r'[^a-z0-9]+', '_', column.lower()).strip('_')}"


def fields_of(form: str, columns: tuple[Column, ...]) -> list[tuple[str, Column]]:
    """The columns of an instrument with unique field names, without the participant, who is the record itself."""
    found: dict[str, Column] = {}
    for column in columns:
        if column.name == "participant":
            continue
        name = field_name(form, column.name)
        while name in found:
            name += "_2"
        found[name] = column
    return list(found.items())


def files(database: Database) -> Iterator[tuple[str, Iterator[str]]]:
    """Every file: its name, and its text in pieces."""
    yield "dictionary.csv", _dictionary(database)
    for form in FORMS:
        yield f"{form}.csv", _records(database, form)


def _dictionary(database: Database) -> Iterator[str]:
    running = study_in_force(database)
    yield _line(HEADER)
    yield _line(_field(RECORD, "participants", "text", "Participant (pseudonym)", ""))
    for form in FORMS:
        for name, column in fields_of(form, columns_of(form, running)):
            kind = "yesno" if column.type == "0/1" else "text"
            yield _line(_field(name, form, kind, column.meaning, KINDS.get(column.type, "")))


def _field(name: str, form: str, kind: str, label: str, validation: str) -> list[str]:
    row = dict.fromkeys(HEADER, "")
    row |= {HEADER[0]: name, HEADER[1]: form, HEADER[3]: kind, HEADER[4]: label, HEADER[7]: validation}
    return list(row.values())


def _records(database: Database, form: str) -> Iterator[str]:
    running = study_in_force(database)
    fields = fields_of(form, columns_of(form, running))
    repeated = form == "decisions"
    yield _line([RECORD, *(REPEATED if repeated else ()), *(name for name, _ in fields)])
    for row in rows_of(database, running, form):
        who = row["name"] if form == "participants" else row["participant"]
        place = [form, row["step"]] if repeated else []
        yield _line([cell(who), *place, *(value_of(column, column.value(row)) for _, column in fields)])


def value_of(column: Column, value: object) -> object:
    """A value in REDCap's form: times have neither a zone nor fractions of a second."""
    if column.type == "time" and isinstance(value, str):
        return value.removesuffix("Z")[:19].replace("T", " ")
    return cell(value)


def _line(cells: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue()
