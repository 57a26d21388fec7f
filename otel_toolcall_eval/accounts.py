"""What happened since the start, as the counters and gauges that are read at export time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.pipeline import Pipeline

Counts: TypeAlias = "dict[tuple[str, tuple[tuple[str, str], ...]], int]"
"""Name of an instrument and its attributes to a number."""


def counts_of(pipeline: Pipeline, *, refused: Mapping[tuple[str, str], int], failures: int) -> Counts:
    """Return all counts.

    Args:
        pipeline: its counts are replaced, never changed, so any thread reads those of one moment.
        refused: requests that were not taken, by transport and reason.
        failures: faults of ours that were passed over.
    """
    found: Counts = {
        ("toolcall_eval.traces.active", ()): pipeline.open_traces,
        ("toolcall_eval.traces.memory", ()): pipeline.buffered_bytes,
        ("toolcall_eval.traces.linked", ()): pipeline.linked_traces,
        ("toolcall_eval.failures", ()): failures,
    }
    for (what, attributes), number in pipeline.counts.by.items():
        found[f"toolcall_eval.spans.{what}", attributes] = number
    for (what, attributes), number in pipeline.logs.counts.items():
        found[f"toolcall_eval.log_records.{what}", attributes] = number
    for (transport, reason), number in refused.items():
        found["toolcall_eval.requests.refused", (("reason", reason), ("transport", transport))] = number
    return found
