"""When the primary analysis was fixed: before the first participant, or later, with data at hand."""

import json
import tomllib

import pandas as pd

from opportune.study import Study
from opportune.study.analysis import AnalysisTable

USUAL = "not fixed in the study file, so the default one is used"


def registered(study: Study | None, events: pd.DataFrame) -> str:
    """When the primary analysis was fixed, in words that follow "This is the primary analysis, ...".

    Args:
        study: the study file in force.
        events: events.csv of the export, in which launch and amendments contain every version of the file.

    """
    if study is None or study.settings.analysis.primary is None:
        return USUAL
    if "given" not in events:
        return "fixed in the study file, but the export does not say when"
    since: tuple[str, int] | None = None
    enrolled = 0
    for row in events[events["kind"].isin({"launched", "amended", "enrolled"})].itertuples():
        if row.kind == "enrolled":
            enrolled += 1
        elif _analysis(json.loads(str(row.given))["file"]) != study.settings.analysis:
            since = None
        elif since is None:
            since = str(row.received_utc)[:10], enrolled
    if since is None:
        return "fixed in the study file, but the record does not say when"
    date, before = since
    if before == 0:
        return f"fixed in the study file on {date}, before the first participant"
    return (
        f"NOT fixed in advance: it was added to the study file on {date}, when {before:,} participants had enrolled; "
        "report it as chosen with data at hand"
    )


def _analysis(file: str) -> AnalysisTable:
    """The table [analysis] alone, as the rest of an earlier file need not be valid today."""
    return AnalysisTable.model_validate(tomllib.loads(file).get("analysis", {}))
