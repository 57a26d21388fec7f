"""Builds pipelines from settings, for a sidecar, a span processor or a recording."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy
from otel_toolcall_eval.engine.buffer.log_correlator import LogCorrelator
from otel_toolcall_eval.engine.buffer.log_store import LogLimits
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.extraction.log_joining import LogJoiner
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, LoadedCriteria, load_criteria
from otel_toolcall_eval.settings.criteria_models import evaluators_by_criteria
from otel_toolcall_eval.settings.dialect_file import build_extractor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from otel_toolcall_eval.engine.binding import BoundTraces
    from otel_toolcall_eval.model.errors import Problem
    from otel_toolcall_eval.settings.service import Settings

SECOND_NS = 1_000_000_000

_FOREVER_NS = 2**62
_KEEP_EVERYTHING = BufferLimits(num_traces=2**62, limit_bytes=2**62, maximum_trace_size_bytes=2**62, span_limit=2**62)
KEEP_ALL_LOGS = LogLimits(limit_bytes=2**62, records=2**62, trace_bytes=2**62)
_NEVER_DUE = CompletionPolicy(
    wait_after_root_ns=_FOREVER_NS, wait_after_root_max_ns=_FOREVER_NS, idle_timeout_ns=_FOREVER_NS, trace_timeout_ns=_FOREVER_NS
)


@cache
def own_version() -> str:
    """Return the version of this package; ``0`` in a source tree that was never installed."""
    try:
        return version("otel-toolcall-eval")
    except PackageNotFoundError:
        return "0"


def with_criteria(settings: Settings, paths: Sequence[Path]) -> Settings:
    """Return settings with these criteria in place of their own."""
    return replace(settings, criteria=tuple(CriteriaSource(path=path) for path in paths))


def build_pipeline(
    settings: Settings,
    criteria: LoadedCriteria,
    *,
    logs: LogLimits | None = None,
    bindings: BoundTraces | None = None,
    name_unbound: bool = True,
) -> Pipeline:
    """Build the main path; ``logs`` bounds the log records that wait, the others are as in ``Pipeline``."""
    reader = build_extractor(settings.dialects)
    return Pipeline(
        reader=reader,
        evaluators=evaluators_by_criteria(),
        criteria=criteria.sets,
        policy=settings.completion,
        limits=settings.buffer,
        logs=LogCorrelator(LogJoiner(reader.asked), logs),
        stopwatch=time.perf_counter_ns,
        bindings=bindings,
        name_unbound=name_unbound,
    )


def build_recorded_pipeline(settings: Settings) -> tuple[Pipeline, tuple[Problem, ...]]:
    """Build a main path that keeps everything until it is drained; returns it with what is odd about its criteria.

    Raises:
        SettingsError: dialects or criteria can't be used.
    """
    loaded = load_criteria(settings.criteria)
    pipeline = build_pipeline(replace(settings, completion=_NEVER_DUE, buffer=_KEEP_EVERYTHING), loaded, logs=KEEP_ALL_LOGS)
    return pipeline, (*settings.warnings, *loaded.warnings)
