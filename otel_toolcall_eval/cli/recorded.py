"""What ``evaluate`` and ``calls`` share: settings and recorded spans."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.assembly.open_trace import OpenTrace
from otel_toolcall_eval.cli.progress import progress
from otel_toolcall_eval.settings.service import Profile, load_settings
from otel_toolcall_eval.sources.otlp_file import read_traces
from otel_toolcall_eval.wiring import build_recorded_pipeline, with_criteria

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_toolcall_eval.errors import Problem
    from otel_toolcall_eval.model.trace import Projection, Span
    from otel_toolcall_eval.pipeline import Pipeline
    from otel_toolcall_eval.settings.service import Settings
    from otel_toolcall_eval.wire.decoded import DecodedTraces

UNBOUNDED = 2**62
STANDARD_INPUT = "-"


def load(settings_file: str | None, criteria: Sequence[str]) -> Settings:
    """Return the settings, with the criteria of the command line in place of the file's if there are any."""
    settings = load_settings(Path(settings_file) if settings_file else None, os.environ, Profile.SIDECAR)
    return with_criteria(settings, [Path(path) for path in criteria]) if criteria else settings


def criteria_sources(settings: Settings) -> tuple[Pipeline, tuple[Problem, ...]]:
    """Return a pipeline that keeps everything until it is drained, and what is odd about its criteria."""
    return build_recorded_pipeline(settings)


def read_pipeline(paths: Sequence[str], pipeline: Pipeline) -> list[Problem]:
    """Feed recorded spans to a pipeline; returns what could not be used."""
    problems: list[Problem] = []
    for decoded in _requests(paths, pipeline.projection, problems):
        pipeline.add(decoded.spans, now_ns=0, transport="file", rejected=decoded.rejected)
    return problems


def read_spans(paths: Sequence[str], projection: Projection) -> tuple[dict[bytes, tuple[Span, ...]], list[Problem]]:
    """Return recorded spans by trace, each span once, and what could not be used."""
    problems: list[Problem] = []
    traces: dict[bytes, OpenTrace] = {}
    for decoded in _requests(paths, projection, problems):
        for span in decoded.spans:
            trace = traces.setdefault(span.trace_id, OpenTrace(span.trace_id, now_ns=0))
            trace.add(span, now_ns=0, relevant=True, span_limit=UNBOUNDED, max_bytes=UNBOUNDED)
    return {trace_id: tuple(trace.spans.values()) for trace_id, trace in traces.items()}, problems


def _requests(paths: Sequence[str], projection: Projection, problems: list[Problem]) -> Iterator[DecodedTraces]:
    total = sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
    with progress("reading", total) as advance:
        for path in paths:
            yield from read_traces(path, projection, problems=problems, progress=advance)
