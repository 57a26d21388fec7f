"""``expect_tool_calls``: say around an agent's run what it is expected to call, and ask afterwards whether it did.

The expectation travels in the OpenTelemetry context, where ``ToolCallEvalSpanProcessor`` finds it when a span starts. Nothing global is
set.
"""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from opentelemetry.context import attach, get_current, set_value
from opentelemetry.trace import get_current_span

from otel_toolcall_eval.inprocess.library import EvaluationResult
from otel_toolcall_eval.inprocess.verdict_listeners import MAX_WATCHED_TRACES, WATCHERS_KEY, watchers_in
from otel_toolcall_eval.model.errors import ExpectationError, ExpectationTimeoutError
from otel_toolcall_eval.settings.criteria_check import CodeCriteria, GivenCriteria, JsonObject, read_criteria

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from otel_toolcall_eval.model.criteria import BoundCriteria, CriteriaSet
    from otel_toolcall_eval.model.score import TraceReport, Verdict

P = ParamSpec("P")
R = TypeVar("R")

WHERE = "expect_tool_calls"

DEFAULT_TIMEOUT_SECONDS = 10.0


class Expectation:
    """What ``with expect_tool_calls(...) as expectation`` gives: the way to the results."""

    def __init__(self, criteria: CodeCriteria, *, block: Expecting) -> None:
        """Expect tool calls of every trace that starts, or goes on, where this stands in the context."""
        self._criteria = criteria
        self._block = block
        self._news = threading.Condition()
        # Guarded by _news:
        self._reports: dict[bytes, TraceReport | None] = {}  # by trace, in order of their first spans; None: not evaluated yet
        self._ended: set[bytes] = set()  # traces of which nothing more will be said
        self._loaded: Sequence[CriteriaSet] = ()
        self._is_full = False  # a trace was seen that is not among them

    @property
    def bound(self) -> BoundCriteria:
        """Return what the traces inside are bound to."""
        return self._criteria.bound

    def is_of(self, block: Expecting) -> bool:
        """Tell whether this block was entered with it."""
        return self._block is block

    @property
    def trace_ids(self) -> tuple[str, ...]:
        """Return the IDs of the traces inside, as 32 hex digits, in the order in which they were first seen."""
        with self._news:
            return tuple(trace_id.hex() for trace_id in self._reports)

    def claim(self, trace_id: bytes) -> bool:
        """Hear that a span of this trace starts; for the processor."""
        with self._news:
            if trace_id in self._reports:
                return False
            if len(self._reports) >= MAX_WATCHED_TRACES:
                self._is_full = True
                return False
            self._reports[trace_id] = None
            return True

    def decided(self, report: TraceReport, loaded: Sequence[CriteriaSet]) -> None:
        """Hear what is said of a trace; for the processor. A later revision takes the place of an earlier one."""
        with self._news:
            self._reports[report.trace_id] = report
            self._loaded = loaded
            self._news.notify_all()

    def ended(self, trace_id: bytes) -> None:
        """Hear that nothing more will be said of a trace; for the processor."""
        with self._news:
            self._ended.add(trace_id)
            self._news.notify_all()

    def result(self, timeout: float | None = DEFAULT_TIMEOUT_SECONDS) -> dict[str, EvaluationResult]:
        """Wait for the verdict on the one trace that ran inside.

        The verdict falls when the trace's root span has ended, and all others of this process with it: wait after the block. It is on
        the whole trace, also if the block was around a part of it. This blocks the thread; in a coroutine,
        ``await asyncio.to_thread(expectation.result)``.

        Args:
            timeout: seconds to wait at most; None waits for as long as it takes.

        Returns:
            One result for each evaluator: under the names that the criteria gave them (``ToolCallCountEvaluator``); with several sets of
            criteria, or names of loaded ones, under ``set: evaluator`` where an evaluator's name alone stands for more than one.

        Raises:
            ExpectationError: no trace ran inside, or several did (see ``results``), or the trace can't be evaluated while the caller's own
                span is open, or no criteria of a name are loaded, or an evaluator failed.
            ExpectationTimeoutError: there is no verdict yet; also a ``TimeoutError``. At once, if the processor was shut down without one.
        """
        found = self.results(timeout)
        if len(found) > 1:
            what = f"{len(found)} traces ran inside: {', '.join(self.trace_ids)}"
            raise ExpectationError(where=WHERE, what=what, fix="call results(), or put a block around each")
        return found[0]

    def results(self, timeout: float | None = DEFAULT_TIMEOUT_SECONDS) -> list[dict[str, EvaluationResult]]:
        """Wait for the verdicts on all traces that ran inside; one entry for each, in the order of ``trace_ids``.

        Raises:
            ExpectationError: as for ``result``, but for several traces; or there were more than 10,000.
            ExpectationTimeoutError: not all verdicts are there yet.
        """
        with self._news:
            waited_for = tuple(self._reports)
            self._refuse_to_wait_in_vain(waited_for)
            if not self._news.wait_for(lambda: all(self._is_settled(trace_id) for trace_id in waited_for), timeout) or any(
                self._reports[trace_id] is None for trace_id in waited_for
            ):
                self._give_up(waited_for, timeout)
            reports = [report for report in map(self._reports.get, waited_for) if report is not None]
            loaded = self._loaded
        return [self._results_of(report, loaded) for report in reports]

    def _refuse_to_wait_in_vain(self, waited_for: tuple[bytes, ...]) -> None:
        if not waited_for:
            what = "no trace was seen inside the block"
            fix = (
                "start a sampled span inside it, from a TracerProvider that has a ToolCallEvalSpanProcessor; "
                "a thread of your own needs the context, see opentelemetry-instrumentation-threading"
            )
            raise ExpectationError(where=WHERE, what=what, fix=fix)
        if self._is_full:
            what = f"more than {MAX_WATCHED_TRACES} traces ran inside, and those beyond were not judged by what is expected"
            raise ExpectationError(where=WHERE, what=what, fix="put a block around each run of the agent, not around them all")
        span = get_current_span()
        trace_id = span.get_span_context().trace_id.to_bytes(16, "big")
        if span.is_recording() and self._reports.get(trace_id, self) is None:
            what = (
                f"the span that is current here belongs to trace {trace_id.hex()} and is open, so waiting for its verdict would never end"
            )
            raise ExpectationError(where=WHERE, what=what, fix="ask after the trace's root span has ended")

    def _is_settled(self, trace_id: bytes) -> bool:
        return self._reports[trace_id] is not None or trace_id in self._ended

    def _give_up(self, waited_for: tuple[bytes, ...], timeout: float | None) -> None:
        unevaluated = [trace_id for trace_id in waited_for if self._reports[trace_id] is None]
        left = [trace_id.hex() for trace_id in unevaluated]
        if self._ended.issuperset(unevaluated):
            what = f"the processor was shut down without a verdict on {', '.join(left)}"
            fix = "ask before the TracerProvider is shut down; start no trace after it"
            raise ExpectationTimeoutError(where=WHERE, what=what, fix=fix)
        what = f"no verdict within {timeout} s on {', '.join(left)}"
        fix = "wait longer, or end the spans of the trace that are open: its root, and what it left running"
        raise ExpectationTimeoutError(where=WHERE, what=what, fix=fix)

    def _results_of(self, report: TraceReport, loaded: Sequence[CriteriaSet]) -> dict[str, EvaluationResult]:
        """Return what the expected criteria say. Others may have evaluated the trace, too."""
        unknown = [name for name in self.bound.names if name in report.unknown_criteria]
        if unknown:
            fix = f"use one of {', '.join(found.name for found in loaded) or 'those that you give the processor; it has none'}"
            raise ExpectationError(where=WHERE, what=f"no criteria are called {', '.join(map(repr, unknown))}", fix=fix)
        found: list[tuple[str, str, Verdict]] = []
        for built, keys in zip(self.bound.sets, self._criteria.keys, strict=True):
            verdicts = (v for v in report.verdicts if (v.criteria, v.criteria_version) == (built.name, built.version))
            found.extend((built.name, key, verdict) for key, verdict in zip(keys, verdicts, strict=True))
        names = {known.name for known in loaded if known.name in self.bound.names or not set(known.aliases).isdisjoint(self.bound.names)}
        found.extend((v.criteria, v.evaluator, v) for v in report.verdicts if v.criteria in names)
        uses = Counter(key for _, key, _ in found)
        return {(f"{name}: {key}" if uses[key] > 1 else key): _result_of(verdict) for name, key, verdict in found}


class Expecting:
    """A block, or a decorator. Each entry, and each call of what is decorated, has an expectation of its own."""

    def __init__(self, criteria: CodeCriteria) -> None:
        """Keep the criteria."""
        self._criteria = criteria

    def __enter__(self) -> Expectation:
        """Expect from here on."""
        expectation = Expectation(self._criteria, block=self)
        _attach(*watchers_in(get_current()), expectation)
        return expectation

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Expect no longer. In a context that this was not entered in, such as another task's, there is nothing to end."""
        # No token is kept: one can't be used up in another context than its own, as where a generator is closed by another task.
        watchers = watchers_in(get_current())
        own = [place for place, watcher in enumerate(watchers) if isinstance(watcher, Expectation) and watcher.is_of(self)]
        if own:
            _attach(*watchers[: own[-1]], *watchers[own[-1] + 1 :])

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function or a coroutine function.

        Raises:
            TypeError: it is a generator function, whose caller goes on between its steps, and would be inside, too.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            name = getattr(function, "__qualname__", repr(function))
            message = f"{WHERE} does not decorate generator functions, such as {name}; write a with block inside it, around the agent's run"
            raise TypeError(message)
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> object:
                with self:
                    return await function(*args, **kwargs)

            return cast("Callable[P, R]", awaited)

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return called


def expect_tool_calls(criteria: GivenCriteria, *, config: Mapping[str, JsonObject] | None = None, name: str = WHERE) -> Expecting:
    """Evaluate the traces that run inside by these criteria, in addition to what applies to them anyway.

    As a context manager it gives an ``Expectation``, whose ``result`` waits for the verdict::

        with expect_tool_calls({"ToolCallCountEvaluator": {"tool_calls_count": {"search": ("=", 1)}}}) as expectation:
            run_agent()
        assert expectation.result()["ToolCallCountEvaluator"].label == "pass"

    As a decorator of a function or a coroutine function it does the same around each call; the verdicts go out as telemetry. It takes a
    ``ToolCallEvalSpanProcessor`` in the TracerProvider, with or without criteria of its own. A trace counts as inside if one of its
    sampled spans starts inside: blocks may be nested, and hold several traces, or a part of one. Another process takes part by baggage,
    which carries names alone: set ``toolcall_eval.criteria`` to names of criteria that are loaded there.

    Args:
        criteria: as for ``evaluate``; or criteria objects; or a name, or several, of criteria that the processor has loaded.
        config: as for ``evaluate``.
        name: name of the criteria in telemetry; from a small set, as it becomes an attribute of metrics.

    Raises:
        CriteriaError: the criteria can't be used; names all that is wrong.
        TypeError: they are of a type that criteria have not.
    """
    return Expecting(read_criteria(criteria, config, name=name, where=WHERE))


def _attach(*watchers: object) -> None:
    attach(set_value(WATCHERS_KEY, watchers or None))


def _result_of(verdict: Verdict) -> EvaluationResult:
    if verdict.score is None:
        error = "no reason was told" if verdict.failure is None else verdict.failure.error_type
        what = f"{verdict.evaluator} failed with {error}; this is a fault of ours"
        raise ExpectationError(where=f"{WHERE}: {verdict.criteria}", what=what, fix="report it, please")
    return EvaluationResult(
        evaluator=verdict.evaluator,
        score=verdict.score.value,
        label=verdict.label,
        details=verdict.score.justification,
        doubts=verdict.doubts,
        score_range=(verdict.score.lowest, verdict.score.highest),
    )
