"""Scores and counts as OpenTelemetry metrics, recorded wherever a ``MetricRecorder`` puts them.

Attribute sets are closed: agents, criteria, services and tools beyond a bound become ``_OTHER``, so that neither a hostile span nor a
mistake (a session ID in an agent's name) makes series without end. Totals stay right.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.deadline import Flusher
from otel_toolcall_eval.exporters.events.attributes import MAX_NAME_CHARS
from otel_toolcall_eval.exporters.events.evaluated_span import maker_of_context
from otel_toolcall_eval.exporters.metrics.evaluated_services import BoundedNames, EvaluatedServices
from otel_toolcall_eval.exporters.metrics.recording import RecordingContext
from otel_toolcall_eval.exporters.names import FORWARD_DELAY
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.exporters.metrics.recording import DataPoint, MetricRecorder
    from otel_toolcall_eval.exporters.names import Attribute, Instrument
    from otel_toolcall_eval.model.score import TraceReport, Verdict

    CountKey = tuple[str, tuple[tuple[str, str], ...]]
    Labels = tuple[tuple[str, str, Label], ...]  # of each verdict of a report: criteria, evaluator, label

_EVICTIONS: Final = frozenset({Trigger.EVICTION, Trigger.MEMORY})
_REMEMBERED_TRACES: Final = 10_000  # about 5 MB; late spans come within a minute or so
_REMEMBERED_CELLS: Final = 20_000
_UNKNOWN: Final = "unknown"
_EVALUATOR_FAILED: Final = "evaluator_failed"  # a fault of ours, beside the closed set of Doubt


class CountSource(Protocol):
    """Has the counts that are read at export time."""

    def counts(self) -> Mapping[CountKey, int | float]:
        """Return all counts since the start.

        The keys are an instrument's name and its attributes: pairs of word (``transport``, ``reason``) and value, where the word is
        the attribute's name without ``toolcall_eval.``. What is none of ``recording.OBSERVED`` is passed over.

        Called from exporter threads, once for each collection, under a lock of whoever collects: it must not block, record or emit.
        """
        ...


class MetricsEmitter:
    """Records reports as metrics. All methods but ``counts``, ``passed_on``, ``flush`` and ``shutdown`` belong to one thread, the worker's.

    Cost: a value in a cell for each score, verdict and expectation, and three for each trace, all in one call; see ``recording``.
    """

    def __init__(
        self, recorder: MetricRecorder, *, evaluated_span_is_remote: bool = True, flush: Callable[[], object] | None = None
    ) -> None:
        """Begin.

        Args:
            recorder: has the cells.
            evaluated_span_is_remote: False inside the agent's own process.
            flush: exports what was recorded; None if nothing can be asked to.
        """
        self._recorder = recorder
        self._is_remote = evaluated_span_is_remote
        self._cells: dict[tuple[str | None, ...], DataPoint] = {}
        self._vocabularies: dict[tuple[str, bool], BoundedNames] = {}
        self._services = EvaluatedServices(self._vocabulary(names.SCORE, names.EVALUATED_SERVICE))
        self._labels: OrderedDict[bytes, Labels] = OrderedDict()
        self._last_labels: Labels = ()
        self._flusher = Flusher([flush] if flush else [])

    def emit(self, report: TraceReport) -> None:
        """Record a report. What an earlier revision of it recorded is not recorded again; see ``toolcall_eval.revisions``."""
        found: list[tuple[DataPoint, float]] = []
        service = self._services.name_of(report)
        if report.verdicts:
            self._services.note(report)
        earlier = self._remember(report)
        if report.revision == 0:
            self._trace(report, service, found)
            for verdict in report.verdicts:
                self._verdict(report, verdict, service, found)
        else:
            for verdict in report.verdicts:
                if earlier is not None and (verdict.criteria, verdict.evaluator) not in earlier:
                    self._verdict(report, verdict, service, found)
                else:
                    self._revision(verdict, None if earlier is None else earlier[verdict.criteria, verdict.evaluator])
        self._recorder.record_all(found, RecordingContext(maker_of_context(report, is_remote=self._is_remote), time.time_ns()))

    def counts(self) -> Mapping[CountKey, int]:
        """Return ``toolcall_eval.service.info``, for whoever observes. Any thread."""
        return self._services.counts()

    def late_span(self, age_seconds: float) -> None:
        """Record how long after its trace's decision a span came."""
        self._cell(names.LATE_SPAN_AGE).record(age_seconds)

    def passed_on(self, delay_seconds: float) -> None:
        """Record how long a request waited to be forwarded. Any thread."""
        self._recorder.cell(FORWARD_DELAY, {}).record(delay_seconds)

    def flush(self, timeout_seconds: float) -> bool:
        """Collect and export what was recorded; False if that took longer."""
        return self._flusher.flush(timeout_seconds)

    def shutdown(self, timeout_seconds: float) -> None:
        """Do nothing: what exports is the caller's, and exports what is left when it is shut down.

        A flush here would take all the time that there is if the collector is dead, and leave none for the others.
        """

    def _trace(self, report: TraceReport, service: str | None, found: list[tuple[DataPoint, float]]) -> None:
        """Find what the first report on a trace records, whatever its verdicts are."""
        fate = report.trigger, report.completeness
        found.append((self._cell(names.TRACES_COMPLETED, *fate), 1.0))
        if report.trigger in _EVICTIONS:
            found.append((self._cell(names.TRACES_EVICTED, *fate), 1))
        if report.unbound:
            found.append((self._cell(names.TRACES_UNBOUND, *fate, service), 1))
        found.append((self._cell(names.COMPLETION_DELAY), report.decided_after_ns / 1e9))
        if not report.unbound:
            found.append((self._cell(names.EVALUATION_DURATION), report.evaluation_seconds))

    def _verdict(self, report: TraceReport, verdict: Verdict, service: str | None, found: list[tuple[DataPoint, float]]) -> None:
        """Find what a verdict records."""
        name, label, criteria = verdict.evaluator, verdict.label, verdict.criteria
        found.append((self._cell(names.EVALUATIONS, name, label, criteria, report.trigger, verdict.completeness, service), 1))
        if label is Label.INCONCLUSIVE:
            reasons = verdict.doubts if verdict.failure is None else (_EVALUATOR_FAILED,)
            found.extend((self._cell(names.INCONCLUSIVE, name, criteria, reason, service), 1) for reason in reasons or (_UNKNOWN,))
        score = verdict.emitted_score
        if verdict.score is None or score is None:
            return  # inconclusive: neither its score nor what it says of single expectations can be relied on
        found.append((self._cell(names.SCORE, name, label, report.agent, criteria, service), score))
        known, expectations = self._cells.get, names.EXPECTATIONS.name
        for expectation in verdict.score.outcomes:
            # Here as in ``_cell``, whose call takes longer than all else: there may be dozens.
            cell = known((expectations, name, expectation.tool, expectation.outcome))
            found.append((cell or self._cell(names.EXPECTATIONS, name, expectation.tool, expectation.outcome), 1))

    def _revision(self, verdict: Verdict, earlier: Label | None) -> None:
        self._cell(names.REVISIONS, verdict.evaluator, _UNKNOWN if earlier is None else earlier, verdict.label).record(1)

    def _remember(self, report: TraceReport) -> Mapping[tuple[str, str], Label] | None:
        """Keep the labels for the next revision; return those of the one before, None if they are unknown."""
        span = report.evaluated_span
        if span is None or (report.unbound and report.revision):
            return None
        key = span.trace_id + span.span_id
        earlier = self._labels.pop(key, None) if report.revision else None
        labels = tuple([(verdict.criteria, verdict.evaluator, verdict.label) for verdict in report.verdicts])
        # Traces that are evaluated alike share the tuples of one of them: most fall like the one before.
        self._labels[key] = self._last_labels = self._last_labels if labels == self._last_labels else labels
        if len(self._labels) > _REMEMBERED_TRACES:
            self._labels.popitem(last=False)
        return None if earlier is None else {(criteria, evaluator): label for criteria, evaluator, label in earlier}

    def _cell(self, instrument: Instrument, *values: str | None) -> DataPoint:
        """Return the cell of these values, which stand in the order of the instrument's attributes; None leaves one out."""
        key = instrument.name, *values
        cell = self._cells.get(key)
        if cell is None:
            cell = self._recorder.cell(instrument, self._attributes(instrument, values))
            if len(self._cells) >= _REMEMBERED_CELLS:
                self._cells.clear()  # they are the recorder's; this is only the way to them
            if all(map(_is_kept, values)):
                self._cells[key] = cell
        return cell

    def _attributes(self, instrument: Instrument, values: Sequence[str | None]) -> Mapping[str, str]:
        pairs = zip(instrument.attributes, values, strict=True)
        return {attribute.name: self._admit(instrument, attribute, value) for attribute, value in pairs if value is not None}

    def _admit(self, instrument: Instrument, attribute: Attribute, value: str) -> str:
        if attribute.limit is None:
            return str(value)  # a word of ours: the member of an enumeration is no plain text
        return self._vocabulary(instrument, attribute).admit(value)

    def _vocabulary(self, instrument: Instrument, attribute: Attribute) -> BoundedNames:
        # Where a whole mesh is sent to us, the many services that nothing evaluates must not crowd out the few that are evaluated.
        key = attribute.name, instrument is names.TRACES_UNBOUND
        vocabulary = self._vocabularies.get(key)
        if vocabulary is None:
            vocabulary = self._vocabularies[key] = BoundedNames(attribute.limit or 0)
        return vocabulary


def _is_kept(name: str | None) -> bool:
    """Tell whether a name may be kept: not one of megabytes."""
    return name is None or len(name) <= MAX_NAME_CHARS
