"""``ToolCalls``, what the fixture hands to a test: the calls of the agent's run so far, and what they can be compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.evaluation import included
from otel_toolcall_eval.engine.pipeline import OWN_SCOPE
from otel_toolcall_eval.extraction.explaining import SpanOutcome, explain
from otel_toolcall_eval.inprocess import library as api
from otel_toolcall_eval.inprocess.pytest_plugin.comparisons import CallArgs, CallCount, CallOrder, CallOutputs
from otel_toolcall_eval.inprocess.pytest_plugin.failure_messages import call_lines, counted, returned, verdict_lines
from otel_toolcall_eval.inprocess.pytest_plugin.items import ItemVerdict, PathsLike, criteria_paths, evaluate_all
from otel_toolcall_eval.inprocess.pytest_plugin.recorder import recorder_of, why_no_span
from otel_toolcall_eval.model.criteria import CallFilter
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.tool_call import CallStatus, ContentState
from otel_toolcall_eval.model.trace import IncompletenessReason
from otel_toolcall_eval.settings.criteria_check import build_checks
from otel_toolcall_eval.settings.dialect_file import default_extractor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_toolcall_eval.inprocess.library import EvaluationResult
    from otel_toolcall_eval.inprocess.pytest_plugin.recorder import Recording
    from otel_toolcall_eval.model.criteria import Check
    from otel_toolcall_eval.model.tool_call import Extraction, Json, Payload, ToolCall
    from otel_toolcall_eval.settings.criteria_check import JsonObject


SHOWN_SPANS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call, in plain Python.

    Attributes:
        name: as recorded.
        args: the arguments; None if they were not recorded in full.
        output: what the tool returned; None also if that was not recorded.
        error: the tool's error, or None if it had none.
        agent: name of the nearest agent above the call.
        missing: which of ``args`` and ``output`` were not recorded in full, and why: absent, redacted, truncated, unparsed.
    """

    name: str
    args: Mapping[object, Json] | None
    output: Json
    error: str | None
    agent: str | None
    missing: Mapping[str, ContentState]


class ToolCalls:
    """The calls that the agent has made since the test began, in order; the fixture ``tool_calls``.

    What is compared is what was recorded up to that moment. See the package's docstring for the comparisons.
    """

    def __init__(self, recording: Recording, *, root: Path, criteria: Sequence[Path] = ()) -> None:
        """Read from a recording.

        Args:
            recording: the test's.
            root: folder that paths of criteria are relative to.
            criteria: files and folders in which ``assert_meets`` looks for names, unless others are given.
        """
        self._recording = recording
        self._root = root
        self._criteria = tuple(criteria)
        self._read: tuple[tuple[ReadableSpan, ...], Extraction] | None = None
        self.judged: list[ItemVerdict] = []

    def __getitem__(self, position: int) -> RecordedCall:
        """Return a call."""
        return self._plain()[position]

    def __iter__(self) -> Iterator[RecordedCall]:
        """Yield the calls."""
        return iter(self._plain())

    def __len__(self) -> int:
        """Return how many calls were recorded: a plain number, which says nothing of what was not."""
        return len(self._plain())

    def __repr__(self) -> str:
        """Return the names of the calls."""
        return f"<tool calls: {', '.join(call.name for call in self._plain()) or 'none'}>"

    @property
    def order(self) -> CallOrder:
        """Return the names of the called tools in order, to be compared with a list, or to be asked whether a list is in it."""
        return CallOrder(self)

    def count(self, tool: str | None = None) -> CallCount:
        """Return how often a tool was called (without a name: all tools), to be compared with a number."""
        return CallCount(self, tool)

    def args(self, tool: str) -> CallArgs:
        """Return what a tool was called with, to be compared with arguments, or with a list of them."""
        return CallArgs(self, tool)

    def output(self, tool: str) -> CallOutputs:
        """Return what a tool returned, to be compared with an output, or with a list of them."""
        return CallOutputs(self, tool)

    def evaluate(
        self, criteria: Mapping[str, JsonObject | None], *, config: Mapping[str, JsonObject] | None = None
    ) -> dict[str, EvaluationResult]:
        """Evaluate the calls by criteria in the guides' form, as ``otel_toolcall_eval.evaluate`` does.

        Raises:
            CriteriaError: criteria can't be used.
        """
        return {name: self.evaluate_check(check) for name, check in build_checks(criteria, config).items()}

    def assert_meets(
        self, *items: str | Mapping[str, JsonObject | None], criteria: PathsLike = (), config: Mapping[str, JsonObject] | None = None
    ) -> None:
        """Fail with a table of verdicts unless the calls meet all of these.

        Args:
            *items: names of items (or of evaluators with default criteria) in the criteria files, or criteria in the guides' form.
            criteria: files and folders, relative to pytest's root folder; without them those of the ini option
                ``tool_calls_criteria``.
            config: configuration of the evaluators, for criteria in the guides' form.

        Raises:
            AssertionError: a verdict is ``fail`` or ``inconclusive``.
            CriteriaError: criteria can't be used, or no item has that name.
        """
        __tracebackhide__ = True
        judged = evaluate_all(self, items, self.paths(criteria), config=config)
        self.judged.extend(judged)
        if any(one.result.label is not Label.PASS for one in judged):
            raise AssertionError("\n".join((*verdict_lines(judged), *self.explained())))

    def paths(self, given: PathsLike) -> tuple[Path, ...]:
        """Return criteria files as paths, or those of the ini option."""
        return criteria_paths(given, root=self._root, default=self._criteria)

    @property
    def extraction(self) -> Extraction:
        """Return the calls recorded so far, with everything that may be missing from them among the doubts."""
        ended = self._spans()
        if self._read is None or len(self._read[0]) != len(ended):
            self._read = (ended, api.extract(ended))
        found = self._read[1]
        doubts = [*found.doubts]
        if not ended:
            doubts.append(IncompletenessReason.NO_TOOL_SPANS)
        if self._recording.still_open:
            doubts.append(IncompletenessReason.OPEN_SPANS)
        return replace(found, doubts=tuple(doubts))

    def evaluate_check(self, check: Check) -> EvaluationResult:
        """Evaluate the calls by one check."""
        return api.evaluate_check(check, self.extraction)

    def explained(self) -> Sequence[str]:
        """Return the calls for a message, one on a line; or why there is none."""
        extraction = self.extraction
        lines = call_lines(included(extraction, CallFilter()))
        still_open = self._recording.still_open
        if still_open:
            lines = [*lines, f"still open, so more may come: {', '.join(still_open[:SHOWN_SPANS])}; is something not awaited?"]
        if included(extraction, CallFilter()):
            return lines
        spans = self._spans()
        if not spans:
            return [
                *lines,
                "nothing was recorded: no span began and ended in this test",
                *(f"  {why}" for why in why_no_span(self._recording)),
            ]
        ours = api.convert(spans)
        ignored = [span for span in explain(default_extractor(), ours, extraction) if span.outcome is not SpanOutcome.KEPT]
        shown = [f"  {span.name}: {span.reason}" for span in ignored[:SHOWN_SPANS]]
        more = [f"  ... and {len(ignored) - SHOWN_SPANS} more"] if len(ignored) > SHOWN_SPANS else []
        hints = [f"  hint: {hint}" for hint in extraction.hints]
        return [*lines, f"no tool call among {counted(len(spans), 'span')}:", *hints, *shown, *more]

    def _spans(self) -> tuple[ReadableSpan, ...]:
        ended = self._recording.ended
        return tuple(span for span in ended if span.instrumentation_scope is None or span.instrumentation_scope.name != OWN_SCOPE)

    def _plain(self) -> tuple[RecordedCall, ...]:
        return tuple(
            RecordedCall(
                name=call.name,
                args=_arguments(call.arguments),
                output=None if "output" in _missing(call) else returned(call.output.content),
                error=(call.error_message or call.error_type or "error") if call.status is CallStatus.ERROR else None,
                agent=call.agent,
                missing=_missing(call),
            )
            for call in included(self.extraction, CallFilter())
        )


def _arguments(payload: Payload) -> Mapping[object, Json] | None:
    content = payload.content
    if content.nothing:
        return {}
    return content.value if content.state is ContentState.FULL and isinstance(content.value, Mapping) else None


def _missing(call: ToolCall) -> dict[str, ContentState]:
    payloads = {"args": call.arguments, "output": call.output}
    return {name: payload.state for name, payload in payloads.items() if payload.state is not ContentState.FULL}


@contextmanager
def record(provider: object, *, root: Path, criteria: Sequence[Path] = ()) -> Iterator[ToolCalls]:
    """Record what begins within, on this provider; see ``ToolCalls`` for the others.

    Raises:
        SettingsError: the provider takes no span processor.
    """
    recorder = recorder_of(provider)
    recording = recorder.start(provider)
    try:
        yield ToolCalls(recording, root=root, criteria=criteria)
    finally:
        recorder.stop()
