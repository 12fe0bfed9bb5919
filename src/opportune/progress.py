"""Progress bars in one style: the current task, its progress, and the time left."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def bar(console: Console | None = None, *, thread: bool = True) -> Progress:
    """A progress bar on standard error, drawn by a thread or by the caller; hidden if nobody is watching.

    Standard output contains only results.
    """
    console = console or Console(stderr=True)
    return Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        auto_refresh=thread,
        disable=not console.is_terminal,
    )
