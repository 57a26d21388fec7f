"""The lower half of *Pipeline health*: the room that the sidecar takes, and what goes out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boards import metrics
from boards.metrics import metric
from boards.panels import Query, graph
from boards.promql import STEP, total
from boards.variables import sidecars
from otel_toolcall_eval.exporters import names

if TYPE_CHECKING:
    from boards.board import Panel


def room() -> list[Panel]:
    """Return what memory and disk are taken by."""
    # Others export the memory of their processes under the same name.
    ours = f"{sidecars(metric(names.PROCESS_MEMORY))} and on (job, instance) {metric(names.TRACES_ACTIVE)}"
    memory = (
        (sidecars(metric(names.TRACES_MEMORY)), "open traces"),
        (sidecars(metric(names.QUEUE_MEMORY)), "queue"),
        (ours, "process"),
    )
    return [
        graph(
            "Memory",
            "Memory of the process, and what open traces and the queue take of it. If open traces near limits.limit_mib, the oldest are "
            "evaluated early; if the queue grows, evaluation is behind: give the sidecar more CPU.",
            unit="bytes",
            queries=[Query(expr=f"sum by (instance) ({taken})", legend=f"{{{{instance}}}} {word}") for taken, word in memory],
        ),
        graph(
            "Forwarding queue",
            "What waits for the downstream, where forward.endpoint is set. If it grows, the downstream is down or slow; at "
            "forward.queue_bytes senders are asked to wait.",
            unit="bytes",
            queries=[Query(expr=f"sum by (instance) ({sidecars(metric(names.FORWARD_QUEUE))})", legend="{{instance}}")],
        ),
        graph(
            "Forwarded",
            "Requests in the minutes before each point, by what became of them. If any are refused, expired or lost, the downstream "
            "lacks them: its log says why.",
            unit="short",
            queries=[Query(expr=total(sidecars(metric(names.FORWARD_REQUESTS)), STEP, metrics.RESULT), legend=f"{{{{{metrics.RESULT}}}}}")],
            stacked=True,
        ),
        graph(
            "Journal",
            "Size of the journal's file. If it grows without end, verdicts are not delivered, or the disk is too slow to compact it; "
            "failures to write are below.",
            unit="bytes",
            queries=[Query(expr=f"sum by (instance) ({sidecars(metric(names.JOURNAL_SIZE))})", legend="{{instance}}")],
        ),
    ]


def out() -> list[Panel]:
    """Return what left, what did not, and what went wrong within."""
    faults = (
        (names.INTERNAL_ERRORS, "not evaluated or not emitted"),
        (names.JOURNAL_FAILURES, "journal not written"),
        (names.JOURNAL_DAMAGED, "journal rows lost"),
        (names.JOURNAL_DISCARDED, "journal files moved aside"),
    )
    return [
        graph(
            "Export failures",
            "Exports that failed in the minutes before each point, by signal. If they go on, check export.otlp.endpoint and the "
            "Collector behind it.",
            unit="short",
            queries=[Query(expr=total(sidecars(metric(names.EXPORT_FAILURES)), STEP, metrics.SIGNAL), legend=f"{{{{{metrics.SIGNAL}}}}}")],
            stacked=True,
        ),
        graph(
            "Dropped on export",
            "Verdicts as log records or spans that were given up in the minutes before each point. If there are any, they are missing in "
            "the back end for good; metrics count on.",
            unit="short",
            queries=[Query(expr=total(sidecars(metric(names.EXPORT_DROPPED)), STEP, metrics.SIGNAL), legend=f"{{{{{metrics.SIGNAL}}}}}")],
            stacked=True,
        ),
        graph(
            "Criteria reloads",
            "Times that criteria files were read again, loaded or rejected. If one is rejected, the old criteria are still in force: "
            "otel-toolcall-eval check names what is wrong with the files.",
            unit="short",
            queries=[Query(expr=total(sidecars(metric(names.CRITERIA_RELOADS)), STEP, metrics.RESULT), legend=f"{{{{{metrics.RESULT}}}}}")],
        ),
        graph(
            "Faults",
            "Traces that were not evaluated or emitted, and failures of the journal. If there are any, the sidecar's log has the cause; "
            "a full disk ends by itself when there is room.",
            unit="short",
            queries=[Query(expr=total(sidecars(metric(one)), STEP), legend=word) for one, word in faults],
        ),
    ]
