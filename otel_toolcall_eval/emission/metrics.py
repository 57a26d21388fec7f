"""Scores and counts as OpenTelemetry instruments of any MeterProvider, the user's own or the sidecar's. Source: DESIGN, section 5.

Attribute sets are closed: agents, criteria and tools beyond a bound become ``_OTHER``, so that neither a hostile span nor a
mistake (a session ID in an agent's name) makes series without end. Totals stay right.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry.metrics import Observation

from otel_toolcall_eval.emission import names
from otel_toolcall_eval.emission.attributes import MAX_NAME_CHARS, clean_name
from otel_toolcall_eval.emission.deadline import Flusher
from otel_toolcall_eval.emission.forward_names import FORWARD_DELAY, FORWARD_OBSERVED, FORWARD_RECORDED
from otel_toolcall_eval.emission.instrument import Attribute, Instrument, Kind
from otel_toolcall_eval.emission.judged_span import context_of, judged_span_context
from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, MeterProvider

    from otel_toolcall_eval.model.score import Label, TraceReport, Verdict

    CountKey = tuple[str, tuple[tuple[str, str], ...]]

_EVICTIONS: Final = frozenset({Trigger.EVICTION, Trigger.MEMORY})
_REMEMBERED_TRACES: Final = 10_000  # about 5 MB; late spans come within a minute or so
_UNKNOWN: Final = "unknown"


class CountSource(Protocol):
    """Has the counts that are read at export time."""

    def counts(self) -> Mapping[CountKey, int | float]:
        """Return all counts since the start.

        The keys are an instrument's name and its attributes: pairs of word (``transport``, ``reason``) and value, where the word is
        the attribute's name without ``toolcall_eval.``. What is none of OBSERVED is passed over.

        Called from exporter threads, once for each collection, under a lock of the SDK: it must not block, record or emit.
        """
        ...


class Vocabulary:
    """The values that one attribute may take: the first ``limit`` that come, then ``_OTHER``. Owned by the emitting thread."""

    def __init__(self, limit: int) -> None:
        """Start empty."""
        self._limit = limit
        self._known: dict[str, str] = {}

    def admit(self, value: str) -> str:
        """Return the value, or ``_OTHER`` if there are too many others already."""
        key = value[:MAX_NAME_CHARS]  # a name of megabytes is not kept
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            return names.OTHER
        self._known[key] = clean_name(key)
        return self._known[key]


class MetricsEmitter:
    """Records reports as metrics. All methods but ``passed_on``, ``flush`` and ``shutdown`` belong to one thread, the worker's.

    Cost: an SDK call for each score, verdict and expectation, and three for each trace; 11 us each on a quiet core (DESIGN, section 7).
    """

    def __init__(self, meter_provider: MeterProvider, *, judged_span_is_remote: bool = True) -> None:
        """Create the instruments.

        Args:
            meter_provider: stays the caller's; it is flushed, never shut down.
            judged_span_is_remote: False inside the agent's own process.
        """
        meter = meter_provider.get_meter(names.SCOPE_NAME)
        self._is_remote = judged_span_is_remote
        recorded = (*names.RECORDED, *FORWARD_RECORDED)
        self._counters = {item.name: _counter(meter, item) for item in recorded if item.kind is Kind.COUNTER}
        self._histograms = {item.name: _histogram(meter, item) for item in recorded if item.kind is Kind.HISTOGRAM}
        self._vocabularies: dict[str, Vocabulary] = {}
        self._labels: OrderedDict[bytes, dict[tuple[str, str], Label]] = OrderedDict()
        flush = getattr(meter_provider, "force_flush", None)  # the API's own providers have none
        self._flusher = Flusher([flush] if flush else [])

    def emit(self, report: TraceReport) -> None:
        """Record a report. What an earlier revision of it recorded is not recorded again; see ``toolcall_eval.revisions``."""
        context = context_of(judged_span_context(report, is_remote=self._is_remote))
        if report.revision == 0:
            self._trace(report, context)
        earlier = self._remember(report)
        for verdict in report.verdicts:
            key = (verdict.criteria, verdict.evaluator)
            if report.revision == 0 or (earlier is not None and key not in earlier):
                self._verdict(report, verdict, context)
            else:
                self._revision(verdict, earlier[key] if earlier is not None else None)

    def late_span(self, age_seconds: float) -> None:
        """Record how long after its trace's decision a span came."""
        self._record(names.LATE_SPAN_AGE, age_seconds, {})

    def passed_on(self, delay_seconds: float) -> None:
        """Record how long a request waited to be passed on. Any thread."""
        self._record(FORWARD_DELAY, delay_seconds, {})

    def flush(self, timeout_seconds: float) -> bool:
        """Collect and export what was recorded; False if that took longer."""
        return self._flusher.flush(timeout_seconds)

    def shutdown(self, timeout_seconds: float) -> None:
        """Do nothing: the provider is the caller's, and exports what is left when it is shut down.

        A flush here would take all the time that there is if the collector is dead, and leave none for the others.
        """

    def _trace(self, report: TraceReport, context: Context) -> None:
        attributes = {names.TRIGGER.name: report.trigger.value, names.COMPLETENESS.name: report.completeness.value}
        self._add(names.TRACES_DECIDED, attributes, context)
        if report.trigger in _EVICTIONS:
            self._add(names.TRACES_EVICTED, attributes, context)
        self._record(names.DECISION_DELAY, report.decided_after_ns / 1e9, {}, context)
        if report.unbound:
            self._add(names.TRACES_UNBOUND, attributes, context)
        else:
            self._record(names.EVALUATION_DURATION, report.evaluation_seconds, {}, context)

    def _verdict(self, report: TraceReport, verdict: Verdict, context: Context) -> None:
        name = {names.EVALUATION_NAME.name: self._admit(names.EVALUATION_NAME, verdict.evaluator)}
        judged = name | {
            names.SCORE_LABEL.name: verdict.label.value,
            names.CRITERIA.name: self._admit(names.CRITERIA, verdict.criteria),
        }
        how = {names.TRIGGER.name: report.trigger.value, names.COMPLETENESS.name: verdict.completeness.value}
        self._add(names.EVALUATIONS, judged | how, context)
        if verdict.score is None or verdict.emitted_score is None:
            return  # inconclusive: neither its score nor what it says of single expectations can be relied on
        agent = {} if report.agent is None else {names.AGENT_NAME.name: self._admit(names.AGENT_NAME, report.agent)}
        self._record(names.SCORE, verdict.emitted_score, judged | agent, context)
        for expectation in verdict.score.outcomes:
            tool = self._admit(names.TOOL_NAME, expectation.tool)
            self._add(names.EXPECTATIONS, name | {names.TOOL_NAME.name: tool, names.RESULT.name: expectation.outcome.value}, context)

    def _revision(self, verdict: Verdict, earlier: Label | None) -> None:
        attributes = {
            names.EVALUATION_NAME.name: self._admit(names.EVALUATION_NAME, verdict.evaluator),
            names.LABEL_FROM.name: _UNKNOWN if earlier is None else earlier.value,
            names.LABEL_TO.name: verdict.label.value,
        }
        self._add(names.REVISIONS, attributes)

    def _remember(self, report: TraceReport) -> Mapping[tuple[str, str], Label] | None:
        """Keep the labels for the next revision; return those of the one before, None if they are unknown."""
        span = report.judged_span
        if span is None or (report.unbound and report.revision):
            return None
        key = span.trace_id + span.span_id
        earlier = self._labels.pop(key, None)
        self._labels[key] = {(verdict.criteria, verdict.evaluator): verdict.label for verdict in report.verdicts}
        if len(self._labels) > _REMEMBERED_TRACES:
            self._labels.popitem(last=False)
        return earlier

    def _admit(self, attribute: Attribute, value: str) -> str:
        vocabulary = self._vocabularies.get(attribute.name)
        if vocabulary is None:
            vocabulary = self._vocabularies[attribute.name] = Vocabulary(attribute.limit or 0)
        return vocabulary.admit(value)

    def _add(self, instrument: Instrument, attributes: Mapping[str, str], context: Context | None = None) -> None:
        self._counters[instrument.name].add(1, attributes, context)

    def _record(self, instrument: Instrument, value: float, attributes: Mapping[str, str], context: Context | None = None) -> None:
        self._histograms[instrument.name].record(value, attributes, context)


def observe(meter_provider: MeterProvider, source: CountSource) -> None:
    """Create the observable instruments of OBSERVED over a source of counts.

    The SDK reads instruments one after the other, in the order in which they were created and under one lock, so the first of them
    takes the counts for all: what one collection exports is of one moment, and its sums agree.
    """
    meter = meter_provider.get_meter(names.SCOPE_NAME)
    snapshot = _Snapshot(source)
    for position, instrument in enumerate((*names.OBSERVED, *FORWARD_OBSERVED)):
        _observable(meter, instrument, snapshot.reader(instrument.name, refresh=position == 0))


class _Snapshot:
    """The counts of one moment, shared by the callbacks of one collection."""

    def __init__(self, source: CountSource) -> None:
        self._source = source
        self._counts: Mapping[CountKey, int | float] = {}

    def reader(self, name: str, *, refresh: bool) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            if refresh:
                self._counts = self._source.counts()
            return [
                Observation(value, {f"{names.OUR_PREFIX}{word}": text for word, text in attributes})
                for (counted, attributes), value in self._counts.items()
                if counted == name
            ]

        return read


def _observable(meter: Meter, instrument: Instrument, callback: Callable[[CallbackOptions], Iterable[Observation]]) -> None:
    create = {
        Kind.OBSERVABLE_COUNTER: meter.create_observable_counter,
        Kind.OBSERVABLE_UP_DOWN_COUNTER: meter.create_observable_up_down_counter,
        Kind.OBSERVABLE_GAUGE: meter.create_observable_gauge,
    }[instrument.kind]
    create(instrument.name, callbacks=[callback], unit=instrument.unit, description=instrument.description)


def _counter(meter: Meter, instrument: Instrument) -> Counter:
    return meter.create_counter(instrument.name, unit=instrument.unit, description=instrument.description)


def _histogram(meter: Meter, instrument: Instrument) -> Histogram:
    # Advice, not a view: in the agent's process the MeterProvider is the user's, and so are its views, which go first.
    return meter.create_histogram(
        instrument.name,
        unit=instrument.unit,
        description=instrument.description,
        explicit_bucket_boundaries_advisory=instrument.bounds,
    )
