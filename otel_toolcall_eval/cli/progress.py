"""A progress bar on standard error, for what takes over a second."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHOW_AFTER_SECONDS = 1.0


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many more bytes are done. Nothing is shown to a pipe, or before a second has passed."""
    if not sys.stderr.isatty() or total <= 0:
        yield lambda _done: None
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra, and slow to import
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    except ImportError:
        yield lambda _done: None
        return
    bar = Progress(TextColumn(title), BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=total)
    started = time.monotonic()
    shown = False

    def advance(done: int) -> None:
        nonlocal shown
        bar.advance(task, done)
        if not shown and time.monotonic() - started > SHOW_AFTER_SECONDS:
            shown = True
            bar.start()

    try:
        yield advance
    finally:
        if shown:
            bar.stop()
