"""Every name that leaves us: metrics, events, spans and attributes, each with unit, bounds and origin.

These names are a promise: renaming one breaks dashboards, so it is a breaking change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final


class NameOrigin(StrEnum):
    """Who gave a name."""

    CONVENTIONS = "semantic conventions"  # open-telemetry/semantic-conventions-genai, event gen_ai.evaluation.result
    OURS = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute of metrics, events or spans.

    Attributes:
        limit: how many values it may take in metrics before ``_OTHER`` stands for the rest; None if the values are ours.
    """

    name: str
    origin: NameOrigin = NameOrigin.OURS
    limit: int | None = None


class InstrumentKind(StrEnum):
    """Kind of an instrument. The observable ones are read at export time and cost nothing before."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    OBSERVABLE_COUNTER = "observable counter"
    OBSERVABLE_UP_DOWN_COUNTER = "observable up-down counter"
    OBSERVABLE_GAUGE = "observable gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """A metric.

    Attributes:
        unit: UCUM code; ``{...}`` counts things.
        bounds: upper bounds of a histogram's buckets, ascending, in ``unit``; empty for all other kinds.
    """

    name: str
    kind: InstrumentKind
    unit: str
    description: str
    attributes: tuple[Attribute, ...] = ()
    bounds: tuple[float, ...] = ()
    origin: NameOrigin = NameOrigin.OURS

    def __post_init__(self) -> None:
        """Refuse bounds that are not ascending, and a histogram without any."""
        if any(low >= high for low, high in pairwise(self.bounds)) or (self.kind is InstrumentKind.HISTOGRAM) is not bool(self.bounds):
            raise ValueError(self.name)


OUR_PREFIX: Final = "toolcall_eval."
"""What the names of our own attributes and metrics begin with."""

SCOPE_NAME: Final = "otel_toolcall_eval"
"""Instrumentation scope of all that we emit. Equal to ``pipeline.OWN_SCOPE``, whose spans are never evaluated; a test holds that."""

SERVICE_NAME: Final = "otel-toolcall-eval"
"""``service.name`` of the sidecar, unless ``OTEL_SERVICE_NAME`` or ``OTEL_RESOURCE_ATTRIBUTES`` says otherwise."""

OTHER: Final = "_OTHER"
"""Stands for every value beyond the bound of an attribute; the word that the semantic conventions use."""

EVALUATION_NAME: Final = Attribute(name="gen_ai.evaluation.name", origin=NameOrigin.CONVENTIONS, limit=64)
SCORE_VALUE: Final = Attribute(name="gen_ai.evaluation.score.value", origin=NameOrigin.CONVENTIONS)
SCORE_LABEL: Final = Attribute(name="gen_ai.evaluation.score.label", origin=NameOrigin.CONVENTIONS)
EXPLANATION: Final = Attribute(name="gen_ai.evaluation.explanation", origin=NameOrigin.CONVENTIONS)
ERROR_TYPE: Final = Attribute(name="error.type", origin=NameOrigin.CONVENTIONS)
CONVERSATION_ID: Final = Attribute(name="gen_ai.conversation.id", origin=NameOrigin.CONVENTIONS)
# A span can choose it freely, as it can its service, so their bounds are the narrowest.
AGENT_NAME: Final = Attribute(name="gen_ai.agent.name", origin=NameOrigin.CONVENTIONS, limit=100)
TOOL_NAME: Final = Attribute(name="gen_ai.tool.name", origin=NameOrigin.CONVENTIONS, limit=500)  # from criteria, never from a span
CRITERIA: Final = Attribute(name="toolcall_eval.criteria", limit=500)
EVALUATED_SERVICE: Final = Attribute(name="toolcall_eval.service.name", limit=100)  # of the evaluated span's resource
EVALUATION_ID: Final = Attribute(name="toolcall_eval.id")
REVISION: Final = Attribute(name="toolcall_eval.revision")
TRIGGER: Final = Attribute(name="toolcall_eval.trigger")
COMPLETENESS: Final = Attribute(name="toolcall_eval.completeness")
COMPLETENESS_REASONS: Final = Attribute(name="toolcall_eval.completeness_reasons")
RESULT: Final = Attribute(name="toolcall_eval.result")
LABEL_FROM: Final = Attribute(name="toolcall_eval.label.from")
LABEL_TO: Final = Attribute(name="toolcall_eval.label.to")
TRANSPORT: Final = Attribute(name="toolcall_eval.transport")
REASON: Final = Attribute(name="toolcall_eval.reason")
SIGNAL: Final = Attribute(name="toolcall_eval.signal")
VERDICT_TIME: Final = Attribute(name="toolcall_eval.verdict_time_unix_ns")
VERDICTS_FAIL: Final = Attribute(name="toolcall_eval.verdicts.fail")
VERDICTS_INCONCLUSIVE: Final = Attribute(name="toolcall_eval.verdicts.inconclusive")
VERDICTS_PASS: Final = Attribute(name="toolcall_eval.verdicts.pass")
MIN_SCORE: Final = Attribute(name="toolcall_eval.score.min")
OMITTED: Final = Attribute(name="toolcall_eval.omitted")
OMITTED_PASS: Final = Attribute(name="toolcall_eval.omitted.pass")
OMITTED_FAIL: Final = Attribute(name="toolcall_eval.omitted.fail")
OMITTED_INCONCLUSIVE: Final = Attribute(name="toolcall_eval.omitted.inconclusive")

RESULT_EVENT: Final = "gen_ai.evaluation.result"
"""Log event and span event of one verdict. Origin: semantic conventions."""

SUMMARY_EVENT: Final = "toolcall_eval.omitted_results"
"""Span event that stands for the verdicts beyond MAX_SPAN_EVENTS. Origin: ours."""

SPAN_NAME: Final = "evaluate_tool_calls"
"""Span of ours in the evaluated trace that carries the span events. Origin: ours."""

MAX_SPAN_EVENTS: Final = 16
"""Verdicts on one span. Spans hold 128 events, then lose the oldest, so ours must not push out the user's."""

# The name lies in the conventions' namespace, beside the event's attribute; the conventions define no metric for scores yet.
SCORE: Final = Instrument(
    name="gen_ai.evaluation.score",
    kind=InstrumentKind.HISTOGRAM,
    unit="1",
    description="Scores of traces, from 0 (worst) to 1 (best). Inconclusive verdicts have none.",
    attributes=(EVALUATION_NAME, SCORE_LABEL, AGENT_NAME, CRITERIA, EVALUATED_SERVICE),
    # 0.999, since a bucket holds what is at most its bound: without it perfect scores and 19 of 20 were in one bucket.
    bounds=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999, 1.0),
)
EVALUATIONS: Final = Instrument(
    name="toolcall_eval.evaluations",
    kind=InstrumentKind.COUNTER,
    unit="{evaluation}",
    description="Verdicts, by label. A revised verdict is counted once, as it was first given.",
    attributes=(EVALUATION_NAME, SCORE_LABEL, CRITERIA, TRIGGER, COMPLETENESS, EVALUATED_SERVICE),
)
INCONCLUSIVE: Final = Instrument(
    name="toolcall_eval.inconclusive",
    kind=InstrumentKind.COUNTER,
    unit="{evaluation}",
    description="Inconclusive verdicts, by what was missing. One with several reasons is counted under each.",
    attributes=(EVALUATION_NAME, CRITERIA, REASON, EVALUATED_SERVICE),
)
EXPECTATIONS: Final = Instrument(
    name="toolcall_eval.expectations",
    kind=InstrumentKind.COUNTER,
    unit="{expectation}",
    description="Expectations of criteria, by outcome. Those of inconclusive verdicts are left out.",
    attributes=(EVALUATION_NAME, TOOL_NAME, RESULT),
)
REVISIONS: Final = Instrument(
    name="toolcall_eval.revisions",
    kind=InstrumentKind.COUNTER,
    unit="{revision}",
    description="Verdicts revised because of late spans.",
    attributes=(EVALUATION_NAME, LABEL_FROM, LABEL_TO),
)
TRACES_ACTIVE: Final = Instrument(
    name="toolcall_eval.traces.active",
    kind=InstrumentKind.OBSERVABLE_UP_DOWN_COUNTER,
    unit="{trace}",
    description="Open traces: buffered, and not yet completed.",
)
TRACES_MEMORY: Final = Instrument(
    name="toolcall_eval.traces.memory",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="By",
    description="Estimated memory of traces that are open or may be revised; the limits use the same estimate.",
)


def _traces(name: str, description: str, *attributes: Attribute) -> Instrument:
    return Instrument(
        name=f"toolcall_eval.traces.{name}",
        kind=InstrumentKind.COUNTER,
        unit="{trace}",
        description=description,
        attributes=(TRIGGER, COMPLETENESS, *attributes),
    )


TRACES_COMPLETED: Final = _traces("completed", "Traces that were completed, with or without criteria.")
TRACES_EVICTED: Final = _traces("evicted", "Traces completed early, because memory or the number of open traces reached its limit.")
TRACES_UNBOUND: Final = _traces("unbound", "Traces that no criteria apply to.", EVALUATED_SERVICE)
TRACES_IN_CONVERSATION: Final = Instrument(
    name="toolcall_eval.traces.in_conversation",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{trace}",
    description="Traces with a link to another trace, or with the conversation of another trace; each is evaluated by itself.",
)
COMPLETION_DELAY: Final = Instrument(
    name="toolcall_eval.completion.delay",
    kind=InstrumentKind.HISTOGRAM,
    unit="s",
    description="Time from the arrival of a trace's root (of its first span, if it has no root) to its completion.",
    bounds=(0.01, 0.1, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600),
)
LATE_SPAN_AGE: Final = Instrument(
    name="toolcall_eval.late_span.age",
    kind=InstrumentKind.HISTOGRAM,
    unit="s",
    description="Time from a trace's completion to the arrival of a late span.",
    bounds=(1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
)
EVALUATION_DURATION: Final = Instrument(
    name="toolcall_eval.evaluation.duration",
    kind=InstrumentKind.HISTOGRAM,
    unit="s",
    description="Time to extract the tool calls of one trace and to evaluate them.",
    bounds=(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1),
)


def _spans(name: str, description: str, *attributes: Attribute) -> Instrument:
    return Instrument(
        name=f"toolcall_eval.spans.{name}",
        kind=InstrumentKind.OBSERVABLE_COUNTER,
        unit="{span}",
        description=description,
        attributes=(TRANSPORT, *attributes),
    )


SPANS_RECEIVED: Final = _spans("received", "Spans that arrived.")
SPANS_RELEVANT: Final = _spans("relevant", "Spans that were kept because a verdict may depend on them.")
SPANS_IGNORED: Final = _spans("ignored", "Spans that no verdict depends on.")
SPANS_LATE: Final = _spans("late", "Spans that came after their trace was completed; they are counted as relevant or ignored too.")
SPANS_DROPPED: Final = _spans("dropped", "Spans that were dropped to stay within the limits; they are counted as relevant or ignored too.")
SPANS_SKIPPED: Final = _spans("skipped", "Spans that were forwarded without being evaluated, because evaluation was behind.")
SPANS_DUPLICATE: Final = _spans("duplicate", "Second copies of spans.")
SPANS_CONFLICT: Final = _spans("conflict", "Second spans with the ID of another one and other content.")
SPANS_REJECTED: Final = _spans("rejected", "Spans that could not be used; the sender was informed.", REASON)


def _log_records(name: str, description: str, *attributes: Attribute) -> Instrument:
    return Instrument(
        name=f"toolcall_eval.log_records.{name}",
        kind=InstrumentKind.OBSERVABLE_COUNTER,
        unit="{record}",
        description=description,
        attributes=attributes,
    )


LOG_RECORDS_RECEIVED: Final = _log_records("received", "Log records that arrived.", TRANSPORT)
LOG_RECORDS_IGNORED: Final = _log_records("ignored", "Log records that no dialect asks for.", TRANSPORT)
LOG_RECORDS_CORRELATED: Final = _log_records("correlated", "Log records that added content to a span, or showed a tool call.")
LOG_RECORDS_DROPPED: Final = _log_records("dropped", "Log records that a dialect asked for and that were dropped.", REASON)
REQUESTS_REJECTED: Final = Instrument(
    name="toolcall_eval.requests.rejected",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{request}",
    description="Requests that were rejected whole, and connections that failed before one; senders learn why, but for tls and too_slow.",
    attributes=(TRANSPORT, REASON),
)
REQUESTS_DELAYED: Final = Instrument(
    name="toolcall_eval.requests.delayed",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{request}",
    description="Requests whose response was delayed, because more arrived than could be evaluated.",
    attributes=(TRANSPORT,),
)

INTERNAL_ERRORS: Final = Instrument(
    name="toolcall_eval.internal_errors",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{error}",
    description="Traces that could not be evaluated and reports that could not be emitted, because of a bug in this program.",
)

JOURNAL_FAILURES: Final = Instrument(
    name="toolcall_eval.journal.failures",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{failure}",
    description="Failed writes of the journal.",
)
JOURNAL_DISCARDED: Final = Instrument(
    name="toolcall_eval.journal.discarded",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{file}",
    description="Files of the journal that could not be read and were moved aside.",
)
JOURNAL_DAMAGED: Final = Instrument(
    name="toolcall_eval.journal.damaged",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{row}",
    description="Rows of the journal that could not be read back; their traces are evaluated as partial.",
)
JOURNAL_SIZE: Final = Instrument(
    name="toolcall_eval.journal.size",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="By",
    description="Size of the journal's file, with its log.",
)

EXPORT_FAILURES: Final = Instrument(
    name="toolcall_eval.export.failures",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{export}",
    description="Failed exports of the sidecar's own telemetry, whether or not they were retried.",
    attributes=(SIGNAL,),
)
EXPORT_DROPPED: Final = Instrument(
    name="toolcall_eval.export.dropped",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{item}",
    description="The sidecar's own log events, spans and metric deltas that were lost: queue full, expired, or rejected by the endpoint.",
    attributes=(SIGNAL,),
)

RECORDED: Final = (
    SCORE,
    EVALUATIONS,
    INCONCLUSIVE,
    EXPECTATIONS,
    REVISIONS,
    TRACES_COMPLETED,
    TRACES_EVICTED,
    TRACES_UNBOUND,
    COMPLETION_DELAY,
    LATE_SPAN_AGE,
    EVALUATION_DURATION,
)
"""Metrics that are recorded when something happens."""

OBSERVED: Final = (
    TRACES_ACTIVE,
    TRACES_MEMORY,
    TRACES_IN_CONVERSATION,
    SPANS_RECEIVED,
    SPANS_RELEVANT,
    SPANS_IGNORED,
    SPANS_LATE,
    SPANS_DROPPED,
    SPANS_SKIPPED,
    SPANS_DUPLICATE,
    SPANS_CONFLICT,
    SPANS_REJECTED,
    LOG_RECORDS_RECEIVED,
    LOG_RECORDS_IGNORED,
    LOG_RECORDS_CORRELATED,
    LOG_RECORDS_DROPPED,
    REQUESTS_REJECTED,
    REQUESTS_DELAYED,
    INTERNAL_ERRORS,
    JOURNAL_FAILURES,
    JOURNAL_DISCARDED,
    JOURNAL_DAMAGED,
    JOURNAL_SIZE,
    EXPORT_FAILURES,
    EXPORT_DROPPED,
)
"""Metrics that are read from the pipeline's own counts at export time."""

EVALUATED_SERVICE_VERSION: Final = Attribute(name="toolcall_eval.service.version", limit=1000)  # of all services together
CRITERIA_VERSION: Final = Attribute(name="toolcall_eval.criteria.version")  # made by us

SERVICE_INFO: Final = Instrument(
    name="toolcall_eval.service.info",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="{service}",
    description="1 for each service whose traces are evaluated, with the version that was seen last.",
    attributes=(EVALUATED_SERVICE, EVALUATED_SERVICE_VERSION),
)
CRITERIA_INFO: Final = Instrument(
    name="toolcall_eval.criteria.info",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="{criteria}",
    description="1 for each criteria set in force, with its version.",
    attributes=(CRITERIA, CRITERIA_VERSION),
)
CRITERIA_RELOADS: Final = Instrument(
    name="toolcall_eval.criteria.reloads",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{reload}",
    description="Reloads of criteria: loaded, or rejected, so that the old ones stay in force.",
    attributes=(RESULT,),
)
QUEUE_MEMORY: Final = Instrument(
    name="toolcall_eval.queue.memory",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="By",
    description="Estimated memory of requests in the queue, bounded by limits.queue_bytes.",
)
PROCESS_MEMORY: Final = Instrument(
    name="process.memory.usage",
    kind=InstrumentKind.OBSERVABLE_UP_DOWN_COUNTER,
    unit="By",
    description="The amount of physical memory in use.",
    origin=NameOrigin.CONVENTIONS,
)
EXPORT_QUEUE: Final = Instrument(
    name="toolcall_eval.export.queue",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="By",
    description="The sidecar's own log events and spans that wait for the OTLP endpoint; beyond 32 MiB of one signal they are dropped.",
    attributes=(SIGNAL,),
)

OPERATION_OBSERVED: Final = (SERVICE_INFO, CRITERIA_INFO, CRITERIA_RELOADS, QUEUE_MEMORY, PROCESS_MEMORY, EXPORT_QUEUE)

FORWARD_REQUESTS: Final = Instrument(
    name="toolcall_eval.forward.requests",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{request}",
    description="Requests to forward, by result: delivered, refused, expired or lost.",
    attributes=(RESULT, SIGNAL),
)
FORWARD_RETRIES: Final = Instrument(
    name="toolcall_eval.forward.retries",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{request}",
    description="Attempts that failed and are retried.",
    attributes=(SIGNAL,),
)
FORWARD_REJECTED: Final = Instrument(
    name="toolcall_eval.forward.rejected",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{item}",
    description="Spans, log records and data points that the downstream rejected in requests that it accepted.",
    attributes=(SIGNAL,),
)
FORWARD_QUEUE: Final = Instrument(
    name="toolcall_eval.forward.queue",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="By",
    description="Requests that wait to be forwarded.",
)
FORWARD_DELAY: Final = Instrument(
    name="toolcall_eval.forward.delay",
    kind=InstrumentKind.HISTOGRAM,
    unit="s",
    description="Time from the receipt of a request to its delivery.",
    bounds=(0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)

FORWARD_RECORDED: Final = (FORWARD_DELAY,)
FORWARD_OBSERVED: Final = (FORWARD_REQUESTS, FORWARD_RETRIES, FORWARD_REJECTED, FORWARD_QUEUE)
