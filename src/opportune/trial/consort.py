"""The items of CONSORT-AI, answered from the record where possible; what authors must add is marked."""

import pandas as pd

from opportune.trial.export import Export
from opportune.trial.fidelity import planned_budget

GAP = "to be written by the authors"


def consort_ai(export: Export) -> pd.DataFrame:
    """Each item of CONSORT-AI (Liu et al., 2020), with the record's answer."""
    rows = export.decisions
    versions = _several(rows, "software_version")
    files = _several(rows, "policy_version")
    unknown = f"{int((rows['available'] != 1).sum()):,} of {len(rows):,} decision points" if "available" in rows else ""
    fallbacks = int((rows["mode"] == "fallback").sum()) if "mode" in rows else 0
    items = [
        ("1", "title and abstract name the intervention and say that it involves AI", GAP),
        ("2", "intended use of the AI intervention, and who uses it", GAP),
        ("4a i", "inclusion and exclusion at the level of participants", GAP),
        ("4a ii", "inclusion and exclusion at the level of input data", _needs(export)),
        ("4b", "how the AI was integrated at the site, and what the site needed", GAP),
        ("5 i", "which version of the algorithm was used", f"Opportune {versions}; study file {files}"),
        ("5 ii", "how input data were acquired and selected", _variables(export)),
        ("5 iii", "how poor or missing input data were handled",
         f"a decision point without its sensed variables allows no nudge: {unknown or 'not recorded'}"),
        ("5 iv", "how people and the AI worked together", _together(export)),
        ("5 v", "the output of the AI", _output(export)),
        ("5 vi", "how the output contributed to decisions", _budget(export)),
        ("19", "performance errors, how they were found and what followed",
         f"{fallbacks:,} decisions were made by the fallback; other errors: {GAP}"),
        ("25", "whether and how the AI and its code can be accessed",
         "Opportune is open source; the study file and every decision are in the export"),
    ]  # fmt: skip
    found = pd.DataFrame(items, columns=["item", "what is asked", "what the record says"])
    found.insert(2, "answered", ["no" if text == GAP else "in part" if GAP in text else "yes" for *_, text in items])
    return found


def _several(rows: pd.DataFrame, name: str) -> str:
    if name not in rows:
        return "not recorded"
    return ", ".join(str(value) for value in rows[name].dropna().unique()) or "not recorded"


def _needs(export: Export) -> str:
    if export.study is None:
        return GAP
    sensed = [name for name, table in export.study.settings.variables.items()
              if table.schedule is None and table.visibility == "sensed"]  # fmt: skip
    return f"a nudge needs {', '.join(sensed)}" if sensed else "none: no variable is sensed"


def _variables(export: Export) -> str:
    if export.study is None:
        return GAP
    by_kind: dict[str, list[str]] = {}
    for name, table in export.study.settings.variables.items():
        by_kind.setdefault("public" if table.schedule is not None else table.visibility, []).append(name)
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in by_kind.items())


def _together(export: Export) -> str:
    if export.study is None:
        return GAP
    who = export.study.settings.serve.nudges_by
    nudges = export.study.settings.nudge.several
    return f"{nudges} were proposed to {'staff, who made them' if who == 'staff' else 'the app, which showed them'}"


def _output(export: Export) -> str:
    if export.study is None:
        return GAP
    return f"at each decision point one of {', '.join(export.study.settings.study.actions)}, and whether to nudge"


def _budget(export: Export) -> str:
    planned = planned_budget(export)
    each = "" if planned is None else f" of at most {planned:g} for each participant"
    return f"nudges{each} were made when the algorithm proposed them"
