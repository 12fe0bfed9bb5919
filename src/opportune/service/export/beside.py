"""The files beside the CSV tables of an export: the dictionary, the study file, and scripts that read the tables."""

import json
import re
from typing import Any

from opportune.service.export.exports import dictionary
from opportune.service.record import queries
from opportune.service.record.database import Database
from opportune.service.record.study_file import published

TYPES = {"text": "character", "integer": "integer", "number": "numeric", "0/1": "integer", "time": "character",
         "JSON": "character"}  # fmt: skip
MOST_STATA = 32
"""The longest name of a variable in Stata."""


def beside(database: Database) -> dict[str, str]:
    """All files of an export but the tables, by name."""
    explained = dictionary(database)
    study = queries.study_row(database)
    assert study is not None
    return {
        "dictionary.json": json.dumps(explained, indent=2, ensure_ascii=False) + "\n",
        "study.toml": published(study["file"]),
        "read.R": r_script(explained["files"]),
        "read.do": stata_script(explained["files"]),
    }


def r_script(files: dict[str, list[dict[str, Any]]]) -> str:
    """An R script that reads every table with types and labels, into data frames named after the files."""
    lines = [
        "# Reads every table of this export, with types and labels. Run it in the folder of the export.",
        "# An empty cell means that there is no value. Times are UTC, except those named local.",
        "",
        "labelled <- function(file, types, labels, times) {",
        "  d <- read.csv(file, colClasses = types, na.strings = '', check.names = FALSE, encoding = 'UTF-8')",
        "  for (name in times) d[[name]] <- as.POSIXct(d[[name]], format = '%Y-%m-%dT%H:%M:%OS', tz = 'UTC')",
        "  for (name in names(labels)) attr(d[[name]], 'label') <- labels[[name]]",
        "  d",
        "}",
        "",
    ]
    for name, columns in files.items():
        types = ", ".join(f"{_r(c['column'])} = {_r(TYPES.get(c['type'], 'character'))}" for c in columns
                          if c["type"] != "value")  # fmt: skip
        labels = ",\n  ".join(f"{_r(c['column'])} = {_r(c['meaning'])}" for c in columns)
        frame = name.removesuffix(".csv").replace("-", "_")
        times = ", ".join(_r(c["column"]) for c in columns if c["type"] == "time" and c["column"].endswith("_utc"))
        lines += [f"{frame} <- labelled({_r(name)}, c({types}), list(\n  {labels}), c({times}))", ""]
    return "\n".join(lines)


def _r(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def stata_script(files: dict[str, list[dict[str, Any]]]) -> str:
    """A Stata do-file that reads every table, labels it, and saves it as .dta."""
    lines = [
        "* Reads every table of this export, labels it, and saves it as .dta. Run it in the folder of the export.",
        "version 14",
        'label define no_yes 0 "no" 1 "yes"',
        "",
    ]
    for name, columns in files.items():
        lines.append(
            f'import delimited using "{name}", varnames(1) case(preserve) encoding(utf-8) bindquotes(strict) clear'
        )
        for column in columns:
            variable = _stata_name(column["column"])
            lines.append(f'capture label variable {variable} "{_stata(column["meaning"])}"')
            if column["type"] == "0/1":
                lines.append(f"capture label values {variable} no_yes")
        lines += [f'save "{name.removesuffix(".csv")}.dta", replace', ""]
    return "\n".join(lines)


def _stata_name(name: str) -> str:
    """The name that Stata gives a column when it reads the file."""
    return re.sub(r"[^0-9A-Za-z_]", "", name)[:MOST_STATA]


def _stata(text: str) -> str:
    """A label of at most 80 characters, without those that would end it."""
    return text.replace('"', "'").replace("`", "'").replace("$", "")[:80]
