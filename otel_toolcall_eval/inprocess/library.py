"""The evaluators as a library: the guides' asynchronous API, and one plain call for everyone else.

No service, no queue, no telemetry: spans and criteria in, results out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from otel_toolcall_eval.engine.buffer.open_trace import OpenTrace
from otel_toolcall_eval.engine.evaluation import evaluate as hold_against
from otel_toolcall_eval.engine.evaluation import included, label
from otel_toolcall_eval.inprocess.sdk_spans import SpanConverter
from otel_toolcall_eval.model.tool_call import CallLog
from otel_toolcall_eval.settings.criteria_check import build_check, build_checks, check_config
from otel_toolcall_eval.settings.criteria_models import EvaluatorType, evaluators_by_criteria, referred
from otel_toolcall_eval.settings.dialect_file import default_extractor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_toolcall_eval.model.criteria import Check
    from otel_toolcall_eval.model.errors import Problem
    from otel_toolcall_eval.model.score import Justification, Label
    from otel_toolcall_eval.model.tool_call import Extraction
    from otel_toolcall_eval.model.trace import IncompletenessReason, Projection, Span
    from otel_toolcall_eval.settings.criteria_check import JsonObject

UNBOUNDED = 2**62
"""Spans that a caller holds in memory already are all kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecution:
    """One finished run of an agent.

    Attributes:
        agent_input: what the agent was asked; not evaluated.
        agent_output: what it answered; not evaluated.
        agent_trace: the run's ended spans, in any order. Spans without a context (made by hand) are taken as distinct.
    """

    agent_input: object = None
    agent_output: object = None
    agent_trace: Sequence[ReadableSpan] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EvaluationResult:
    """The answer of one evaluator.

    Attributes:
        evaluator: name of the evaluator.
        score: in [0.0, 1.0], never rounded, by the rules applied to what was recorded.
        label: ``pass``, ``fail``, or ``inconclusive`` if something that was not recorded could change the score.
        details: the justification; has the guides' fields as attributes, such as ``lcs``.
        doubts: what was not recorded, if that could matter.
        score_range: least and greatest score that anything unrecorded could make it; equal unless inconclusive.
    """

    evaluator: str
    score: float
    label: Label
    details: Justification
    doubts: tuple[IncompletenessReason, ...] = ()
    score_range: tuple[float, float] = field(default=(0.0, 1.0))

    @property
    def explanation(self) -> str:
        """Return one line that says why, for the message of an assertion."""
        return self.details.explain()

    def __repr__(self) -> str:
        """Return what a failed assertion should show."""
        return f"{type(self).__name__}(evaluator={self.evaluator!r}, score={self.score}, label={self.label.value!r}: {self.explanation})"


def evaluate(
    spans: Sequence[ReadableSpan],
    criteria: Mapping[str, JsonObject | None],
    *,
    config: Mapping[str, JsonObject] | None = None,
) -> dict[str, EvaluationResult]:
    """Hold the tool calls of one finished run against criteria.

    Args:
        spans: the run's ended spans, in any order.
        criteria: for each evaluator, by class name (``ToolCallCountEvaluator``) or ID (``tool-call-count``), what it expects,
            in the guides' form.
        config: for each evaluator its configuration (``strict``, ``subset``, ``pass_threshold``, ...).

    Returns:
        One result for each evaluator, under the name it was given.

    Raises:
        CriteriaError: criteria can't be used; names all that is wrong.
        TypeError: criteria are no mapping, or spans are none.
    """
    checks = build_checks(criteria, config)
    extraction = extract(spans)
    return {name: evaluate_check(check, extraction) for name, check in checks.items()}


def _warn(problem: Problem) -> None:
    """Tell of a key that has no effect. The guides' own form ignores it, and a misspelt one would do nothing in silence."""
    warnings.warn(str(problem), stacklevel=4)


class GuidesEvaluator:
    """An evaluator in the guides' form; the registry knows it by the name of the class."""

    evaluator_id: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Look up the evaluator's ID, unless a class derived from one of ours has it."""
        kind = referred(cls.__name__)
        if isinstance(kind, EvaluatorType):
            cls.evaluator_id = kind.evaluator_id

    def __init__(self, id: str = "", config: JsonObject | None = None) -> None:  # noqa: A002 - the signature of the guides
        """Configure the evaluator.

        Args:
            id: a name of the caller's for this instance.
            config: the guides' configuration.

        Raises:
            CriteriaError: the configuration can't be used.
        """
        self.id = id or self.evaluator_id
        self.config = dict(config or {})
        check_config(self.evaluator_id, self.config, warn=_warn)

    @property
    def name(self) -> str:
        """Return the evaluator's name."""
        return str(self.config.get("name", type(self).__name__))

    async def validate_and_evaluate_criteria(
        self, agent_execution: AgentExecution, evaluation_criteria: JsonObject | None = None
    ) -> EvaluationResult:
        """Hold a run against criteria; the default criteria are used if none are given.

        Raises:
            CriteriaError: the criteria can't be used, or there are none.
        """
        given: object = agent_execution
        if not isinstance(given, AgentExecution):
            message = f"agent_execution is a {type(given).__name__}; wrap the spans: AgentExecution(agent_trace=spans)"
            raise TypeError(message)
        return self.evaluate(agent_execution.agent_trace, evaluation_criteria)

    def evaluate(self, spans: Sequence[ReadableSpan], criteria: JsonObject | None = None) -> EvaluationResult:
        """Do the same for plain spans, without an event loop."""
        return evaluate_check(build_check(self.evaluator_id, self.config, criteria, warn=_warn), extract(spans))


class ToolCallCountEvaluator(GuidesEvaluator):
    """Holds how often tools were called against ``{"tool_calls_count": {tool: (operator, count)}}``."""


class ToolCallOrderEvaluator(GuidesEvaluator):
    """Holds the order of tool calls against ``{"tool_calls_order": [tool, ...]}``."""


class ToolCallArgsEvaluator(GuidesEvaluator):
    """Holds the arguments of tool calls against ``{"tool_calls": [{"name": tool, "args": {...}}, ...]}``."""


class ToolCallOutputEvaluator(GuidesEvaluator):
    """Holds the outputs of tool calls against ``{"tool_outputs": [{"name": tool, "output": ...}, ...]}``."""


def convert(spans: Sequence[ReadableSpan]) -> tuple[Span, ...]:
    """Return our copies of one run's spans, whatever their trace IDs; of two with one ID, the one that ended later.

    Raises:
        TypeError: one of them is no ended span.
    """
    projection: Projection = default_extractor().projection
    converter = SpanConverter()
    trace = OpenTrace(bytes(16), now_ns=0)  # all spans handed over are one run
    for position, span in enumerate(spans):
        if not hasattr(span, "get_span_context"):
            message = f"spans[{position}] is a {type(span).__name__}; give ended spans, as an InMemorySpanExporter has them"
            raise TypeError(message)
        ours = converter.convert(span, projection, position=position)
        trace.add(ours, now_ns=0, relevant=True, span_limit=UNBOUNDED, max_bytes=UNBOUNDED)
    return tuple(trace.spans.values())


def extract(spans: Sequence[ReadableSpan]) -> Extraction:
    """Return the tool calls that one run's spans show; raises TypeError like ``convert``."""
    return default_extractor().extract(convert(spans))


def evaluate_check(check: Check, extraction: Extraction) -> EvaluationResult:
    """Hold calls against one check."""
    log = CallLog(calls=included(extraction, check.include), open_ended=bool(extraction.doubts))
    score = hold_against(evaluators_by_criteria(), check.criteria, log)
    return EvaluationResult(
        evaluator=check.evaluator,
        score=score.value,
        label=label(score, check.pass_threshold),
        details=score.justification,
        doubts=tuple(dict.fromkeys((*extraction.doubts, *score.doubts))),
        score_range=(score.lowest, score.highest),
    )
