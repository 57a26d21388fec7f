"""What happened since the start, as the counters and gauges that are read at export time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.engine.pipeline import Pipeline

Counts: TypeAlias = "dict[tuple[str, tuple[tuple[str, str], ...]], int]"
"""Name of an instrument and its attributes to a number."""


class Counting(Protocol):
    """A part that counts."""

    def counts(self) -> Mapping[tuple[str, tuple[tuple[str, str], ...]], int | float]:
        """Return its counts. Any thread."""
        ...


class CombinedCounters:
    """The counts of several parts, as one source."""

    def __init__(self, *parts: Counting | None) -> None:
        """Keep those that are there."""
        self._parts = tuple(part for part in parts if part is not None)

    def counts(self) -> Mapping[tuple[str, tuple[tuple[str, str], ...]], int | float]:
        """Return the counts of all parts, none of which counts what another does."""
        return {key: number for part in self._parts for key, number in part.counts().items()}


def pipeline_counters(
    pipeline: Pipeline, *, active: int, refused: Mapping[tuple[str, str], int], delayed: Mapping[str, int], queued_bytes: int, failures: int
) -> Counts:
    """Return all counts.

    Args:
        pipeline: its counts are replaced, never changed, so any thread reads those of one moment.
        active: traces that are open.
        refused: requests that were not taken, by transport and reason.
        delayed: requests whose answer was held back, by transport.
        queued_bytes: what waits for the pipeline.
        failures: faults of ours that were passed over.
    """
    found: Counts = {
        ("toolcall_eval.traces.active", ()): active,
        ("toolcall_eval.traces.memory", ()): pipeline.buffered_bytes,
        ("toolcall_eval.traces.in_conversation", ()): pipeline.linked_traces,
        ("toolcall_eval.queue.memory", ()): queued_bytes,
        ("toolcall_eval.internal_errors", ()): failures,
    }
    for (what, attributes), number in pipeline.counts.by.items():
        found[f"toolcall_eval.spans.{what}", attributes] = number
    for (what, attributes), number in pipeline.logs.counts.items():
        found[f"toolcall_eval.log_records.{what}", attributes] = number
    for (transport, reason), number in refused.items():
        found["toolcall_eval.requests.rejected", (("reason", reason), ("transport", transport))] = number
    for transport, number in delayed.items():
        found["toolcall_eval.requests.delayed", (("transport", transport),)] = number
    return found
