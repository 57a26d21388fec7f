"""What ``evaluate`` and ``calls`` share: settings, recorded spans, and a progress bar for what takes over a second."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.log_correlator import LogCorrelator
from otel_toolcall_eval.extraction.log_joining import LogJoiner
from otel_toolcall_eval.model.trace import Trace, Trigger
from otel_toolcall_eval.receivers.file.receiver import read_traces
from otel_toolcall_eval.settings.build_pipeline import KEEP_ALL_LOGS, build_recorded_pipeline, with_criteria
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.extraction.extractor import Extractor
    from otel_toolcall_eval.model.errors import Problem
    from otel_toolcall_eval.model.trace import Projection, Span
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs
    from otel_toolcall_eval.settings.service import Settings


TRANSPORT = "file"
STANDARD_INPUT = "-"


def load(settings_file: str | None, criteria: Sequence[str]) -> Settings:
    """Return the settings, with the criteria of the command line in place of the file's if there are any."""
    settings = load_settings(Path(settings_file) if settings_file else None, os.environ, Deployment.SIDECAR)
    return with_criteria(settings, [Path(path) for path in criteria]) if criteria else settings


def criteria_sources(settings: Settings) -> tuple[Pipeline, tuple[Problem, ...]]:
    """Return a pipeline that keeps everything until it is drained, and what is odd about its criteria."""
    return build_recorded_pipeline(settings)


def read_pipeline(paths: Sequence[str], pipeline: Pipeline) -> list[Problem]:
    """Feed recorded spans and log records to a pipeline; returns what could not be used."""
    problems: list[Problem] = []

    def take(logs: DecodedLogs) -> None:
        pipeline.add_logs(logs.records, received=logs.received, now_ns=0, transport=TRANSPORT)

    for decoded in _requests(paths, pipeline.projection, problems, take):
        pipeline.add(decoded.spans, now_ns=0, transport=TRANSPORT, rejected=decoded.rejected_by)
    return problems


def read_spans(paths: Sequence[str], extractor: Extractor) -> tuple[dict[bytes, tuple[Span, ...]], list[Problem]]:
    """Return recorded spans by trace, with what log records say of them, and what could not be used."""
    problems: list[Problem] = []
    desk = LogCorrelator(LogJoiner(extractor.asked), KEEP_ALL_LOGS)
    traces: dict[bytes, list[Span]] = {}

    def take(logs: DecodedLogs) -> None:
        desk.add(logs.records, received=logs.received, now_ns=0, transport=TRANSPORT)

    for decoded in _requests(paths, extractor.projection, problems, take):
        for span in decoded.spans:
            traces.setdefault(span.trace_id, []).append(span)
    whole = (Trace(trace_id=trace_id, spans=tuple(spans), root=None, trigger=Trigger.RECORDED) for trace_id, spans in traces.items())
    return {trace.trace_id: desk.spans_of(trace) for trace in whole}, problems


def _requests(
    paths: Sequence[str], projection: Projection, problems: list[Problem], logs: Callable[[DecodedLogs], None]
) -> Iterator[DecodedTraces]:
    total = sum(file.stat().st_size for path in paths for file in _files(Path(path)))
    with progress("reading", total) as advance:
        for path in paths:
            yield from read_traces(path, projection, problems=problems, progress=advance, logs=logs)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        yield path


SHOW_AFTER_SECONDS = 1.0


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes how many more bytes are done. Nothing is shown to a pipe, or before a second has passed."""
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
