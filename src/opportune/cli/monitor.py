"""`opportune monitor`: the dated report for a data monitoring board."""

import datetime as dt
import shlex
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from opportune.cli.analyse import shown_url
from opportune.cli.record import opened, write_export
from opportune.cli.serve import Db
from opportune.cli.shared import DONE, Out, say
from opportune.cli.signing import signed_in

HELP = """Write the report for a data monitoring board: flow, safety, fidelity, pacing, missing data.

Arms are unnamed and effects are not shown unless --unblinded asks for them, which requires an admin account and is
recorded.

\b
Examples:
  opportune monitor --db sqlite:///study.db --out board
  opportune monitor --db sqlite:///study.db --out board --unblinded
"""


def monitor(
    db: Db = None,
    out: Out = Path("out"),
    unblinded: Annotated[
        bool,
        typer.Option("--unblinded", help="Name arms and show effects; requires an admin account, and is recorded."),
    ] = False,
) -> None:
    """Write the monitoring report of a study."""
    from opportune.files import held  # noqa: PLC0415
    from opportune.report.monitor import write_monitoring  # noqa: PLC0415
    from opportune.trial.export import read_export  # noqa: PLC0415
    from opportune.trial.monitor import monitor as make  # noqa: PLC0415

    with opened(db) as database, held(out), tempfile.TemporaryDirectory(prefix="opportune-monitor-") as folder:
        from opportune.service.accounts.changes import note_access  # noqa: PLC0415
        from opportune.service.record import queries  # noqa: PLC0415

        actor = signed_in(database) if unblinded else signed_in(database, "analyst", "admin")
        note_access(database, actor, "unblinded monitoring" if unblinded else "monitoring")
        write_export(database, Path(folder))
        record = read_export(Path(folder))
        today = dt.datetime.now(dt.UTC).date()
        found = make(record, date=today, unblinded=unblinded, alerts=queries.alert_rows(database))
        words = ["opportune", "monitor", "--db", shown_url(database.url), "--out", str(out)]
        report = write_monitoring(found, out, shlex.join(words + (["--unblinded"] if unblinded else [])))
    say(f"{record.name}: {len(record.decisions):,} decision points", DONE)
    typer.echo(str(report))
