"""The dated report for a data monitoring board: one printable page, and a CSV of every table."""

from datetime import UTC, datetime
from pathlib import Path

from opportune.experiments.record import Table, versions
from opportune.report.analysis import CAPTIONS, csv_of, report_table
from opportune.report.html import render, write_page
from opportune.trial.monitor import Monitored

OWN = {
    "safety": "Counts from the record that concern safety",
    "withdrawals": "Why participants were withdrawn",
    "alerts": "Open alerts",
    "pacing": "Nudges in each quarter of the study, against spending the budget evenly",
}


def write_monitoring(found: Monitored, out: Path, command: str) -> Path:
    """Write NAME-monitoring-DATE.html, and beside it the CSV of every table."""
    stem = f"{found.export.name}-monitoring-{found.date.isoformat()}{'-unblinded' if found.unblinded else ''}"
    files = [write_page(csv_of(frame), out / f"{stem}-{name}.csv").name for name, frame in found.tables.items()]
    tables: dict[str, Table] = {
        name: report_table(name, frame, {**CAPTIONS, **OWN}[name]) for name, frame in found.tables.items()
    }
    page = render(
        "monitoring.html.jinja",
        name=found.export.name,
        date=found.date,
        unblinded=found.unblinded,
        tables=tables,
        notes=found.export.notes,
        failures=[(finding.title, finding.why) for finding in found.findings if finding.estimates is None],
        files=files,
        command=command,
        finished=datetime.now(UTC),
        versions=versions(),
    )
    return write_page(page, out / f"{stem}.html")
