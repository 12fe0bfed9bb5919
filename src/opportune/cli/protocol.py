"""`opportune protocol`: a document for ethics boards and monitors, made from a study file."""

from pathlib import Path
from typing import Annotated

import typer

from opportune.cli.shared import DONE, say

HELP = """Write a document for ethics boards and monitors from a study file, by the items of SPIRIT-AI.

It covers version, inputs, missing data, fallback, safety, randomisation, who sees what, and data protection. What the
file does not say is marked as a gap. The document is Markdown, on standard output unless --out names a file.

\b
Example:
  opportune protocol my.toml --out protocol.md
"""


def protocol(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)],
    out: Annotated[Path | None, typer.Option(help="The file to write.", metavar="FILE", show_default=False)] = None,
) -> None:
    """Write the document, and report the number of gaps."""
    from opportune.files import write_whole  # noqa: PLC0415
    from opportune.study import load_study  # noqa: PLC0415
    from opportune.study.protocol import GAP  # noqa: PLC0415
    from opportune.study.protocol import protocol as written  # noqa: PLC0415

    text = written(load_study(study))
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text.encode())
        typer.echo(str(out))
    say(f"gaps left: {text.count(GAP) - 1}", DONE)
