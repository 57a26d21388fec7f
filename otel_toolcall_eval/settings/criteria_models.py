"""What criteria files look like: evaluator files, eval sets, and the criteria of each evaluator, in both spellings.

Source: guides/sample-weather-tools.md and the four evaluator guides for the sample's own keys; ``match``, ``pass_threshold``,
``include``, ``matching``, ``parallel`` and inline ``evaluators`` are ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import Field

from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.count import CountEvaluator
from otel_toolcall_eval.evaluators.order import OrderEvaluator
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.model.criteria import (
    EVALUATED_CALLS,
    EVALUATED_KINDS,
    EVALUATED_PHASES,
    ArgsCriteria,
    ArgsExpectation,
    CallFilter,
    CountCriteria,
    CountExpectation,
    Criteria,
    Matching,
    OrderCriteria,
    OutputCriteria,
    OutputExpectation,
    Parallel,
)
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase
from otel_toolcall_eval.settings.config_model import ConfigModel
from otel_toolcall_eval.settings.types import (
    AnyValue,
    Count,
    Flag,
    GivenName,
    GivenNames,
    GivenShare,
    Name,
    Object,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from otel_toolcall_eval.engine.evaluation import Evaluator, Evaluators
    from otel_toolcall_eval.model.tool_call import Json


class CountModel(ConfigModel):
    """Criteria of ToolCallCountEvaluator."""

    tool_calls_count: dict[Name, Count] = Field(
        min_length=1,
        description='For each tool, an operator and a count: {"get_weather": [">=", 1]}. The tool "*" counts every call.',
    )


class OrderModel(ConfigModel):
    """Criteria of ToolCallOrderEvaluator."""

    tool_calls_order: list[Name] = Field(
        min_length=1, description="Names of the tools in the expected order; a name may stand several times."
    )


class ExpectedCallModel(ConfigModel):
    """A call that is expected with these arguments."""

    name: Name = Field(description="Exact name of the tool.")
    args: Object = Field(description="Expected arguments; {} for a call without any.")
    id: Name | None = Field(default=None, description="ID that the call has to carry.")


class ArgsModel(ConfigModel):
    """Criteria of ToolCallArgsEvaluator."""

    tool_calls: list[ExpectedCallModel] = Field(min_length=1, description="Expected calls with their arguments.")


class ExpectedOutputModel(ConfigModel):
    """A call that is expected to return this."""

    name: Name = Field(description="Exact name of the tool.")
    output: AnyValue = Field(description="Expected output: text, or any JSON value.")
    id: Name | None = Field(default=None, description="ID that the call has to carry.")


class OutputModel(ConfigModel):
    """Criteria of ToolCallOutputEvaluator."""

    tool_outputs: list[ExpectedOutputModel] = Field(min_length=1, description="Expected outputs.")


class IncludeModel(ConfigModel):
    """Which calls are evaluated at all."""

    kinds: Annotated[frozenset[CallKind], Field(min_length=1)] = Field(
        default_factory=lambda: EVALUATED_KINDS,
        description="Kinds of calls; without it all but control (final answers, handoffs).",
    )
    phases: Annotated[frozenset[CallPhase], Field(min_length=1)] = Field(
        default_factory=lambda: EVALUATED_PHASES,
        description="How far calls came; without it only executed ones.",
    )

    def build(self) -> CallFilter:
        """Return it in our own form."""
        include = CallFilter(kinds=self.kinds, phases=self.phases)
        return EVALUATED_CALLS if include == EVALUATED_CALLS else include


class EvaluatorConfig(ConfigModel):
    """``evaluatorConfig`` of any of our evaluators. What has a default may be left out, but not be null (count-config-strict-null)."""

    name: GivenName = Field(default=None, description="Name that scores are emitted under; the evaluator's name, else its ID, if left out.")
    strict: Flag = Field(default=False, description="Make the score all or nothing.")
    pass_threshold: GivenShare = Field(default=None, description="Least score that is labelled pass; 1.0 if left out.")
    include: IncludeModel = Field(default_factory=IncludeModel, description="Which calls are evaluated at all.")
    default_evaluation_criteria: AnyValue = Field(default=None, description="Criteria for items that give none of their own.")

    expects: ClassVar[type[ConfigModel]]
    """What its criteria look like in files."""

    builds: ClassVar[type[Criteria]]
    """What ``build`` returns."""

    def build(self, expected: Any) -> Criteria:  # noqa: ANN401 - each takes what it expects
        """Return criteria under this configuration."""
        raise NotImplementedError


class CountConfig(EvaluatorConfig):
    """``evaluatorConfig`` of ToolCallCountEvaluator."""

    expects = CountModel
    builds = CountCriteria

    def build(self, expected: CountModel) -> CountCriteria:
        """Return criteria under this configuration."""
        expectations = (
            CountExpectation(tool=tool, operator=operator, count=count) for tool, (operator, count) in expected.tool_calls_count.items()
        )
        return CountCriteria(expectations=tuple(expectations), strict=self.strict)


class OrderConfig(EvaluatorConfig):
    """``evaluatorConfig`` of ToolCallOrderEvaluator."""

    expects = OrderModel
    builds = OrderCriteria

    parallel: Parallel = Field(
        default=Parallel.START_TIME,
        description="Calls that overlap in time: start_time keeps them in order of start, any lets any order count.",
    )

    def build(self, expected: OrderModel) -> OrderCriteria:
        """Return criteria under this configuration."""
        return OrderCriteria(expected=tuple(expected.tool_calls_order), strict=self.strict, parallel=self.parallel)


class _PairingConfig(EvaluatorConfig):
    """What the two evaluators have in common that pair calls."""

    matching: Matching = Field(
        default=Matching.MAXIMUM,
        description="Pair expected and actual calls of one name so that as many as possible match (maximum), or by position (positional).",
    )


class ArgsConfig(_PairingConfig):
    """``evaluatorConfig`` of ToolCallArgsEvaluator."""

    expects = ArgsModel
    builds = ArgsCriteria

    subset: Flag = Field(default=False, description="Let actual calls have more arguments than expected.")

    def build(self, expected: ArgsModel) -> ArgsCriteria:
        """Return criteria under this configuration."""
        expectations = (
            ArgsExpectation(tool=call.name, arguments=cast("Mapping[str, Json]", call.args), call_id=call.id)
            for call in expected.tool_calls
        )
        return ArgsCriteria(expectations=tuple(expectations), strict=self.strict, subset=self.subset, matching=self.matching)


class OutputConfig(_PairingConfig):
    """``evaluatorConfig`` of ToolCallOutputEvaluator."""

    expects = OutputModel
    builds = OutputCriteria

    def build(self, expected: OutputModel) -> OutputCriteria:
        """Return criteria under this configuration."""
        expectations = (
            OutputExpectation(tool=call.name, output=cast("Json", call.output), call_id=call.id) for call in expected.tool_outputs
        )
        return OutputCriteria(expectations=tuple(expectations), strict=self.strict, matching=self.matching)


class EvaluatorModel(ConfigModel):
    """An evaluator file, or a member of an eval set's inline ``evaluators``."""

    version: AnyValue = Field(default=None, description="Version of the format; not looked at.")
    id: Name = Field(description="Name that eval sets use for the evaluator.")
    name: Name | None = Field(default=None, description="Name for people; scores are emitted under it if the configuration has no name.")
    description: AnyValue = Field(default=None, description="For people.")
    evaluator_type_id: Name = Field(description="Which evaluator it is: its ID, such as tool-call-count, with or without uipath-.")
    evaluator_config: AnyValue = Field(default=None, description="Its configuration; null is the same as {}.")


class EvalSetModel(ConfigModel):
    """An eval set. Its members are checked one by one, so that one bad item does not hide the others' faults."""

    version: AnyValue = Field(default=None, description="Version of the format; not looked at.")
    id: AnyValue = Field(default=None, description="For people.")
    name: AnyValue = Field(default=None, description="For people.")
    description: AnyValue = Field(default=None, description="For people.")
    evaluator_refs: list[Name] = Field(default=[], description="The evaluators of this set; empty or left out: those that the items name.")
    evaluators: list[AnyValue] = Field(default=[], description="Evaluators of this file alone.")
    evaluations: list[AnyValue] = Field(default=[], description="The items.")


class EvalItemModel(ConfigModel):
    """An item of an eval set: what traces of one kind are held against."""

    id: Name = Field(description="Unique name; what traces name in toolcall_eval.criteria.")
    name: Name | None = Field(default=None, description="Another name that traces may use.")
    inputs: Object = Field(
        default={}, description="A subset of the agent's recorded input: without match, the item evaluates the traces that have it."
    )
    evaluation_criterias: Object = Field(description="Criteria for each evaluator; null or {} means its default criteria.")
    match: AnyValue = Field(default=None, description="Which traces the item evaluates.")
    pass_threshold: GivenShare = Field(default=None, description="Least score that is labelled pass, for all evaluators of the item.")


class MatchModel(ConfigModel):
    """``match`` of an item. All conditions have to hold."""

    resource: Object = Field(default={}, description="Attributes that the resource has to have.")
    service: GivenNames = Field(default=None, description="Value, or list of values, of the resource's service.name.")
    root_span_name: GivenName = Field(default=None, description="Exact name of the root span.")
    agent_name: GivenName = Field(default=None, description="Name of the top-most agent.")
    attributes: Object = Field(default={}, description="Attributes that one span has to have, all of them.")
    inputs: Object = Field(default={}, description="A subset of the agent's recorded input.")


_PREFIX = "uipath-"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorType:
    """An evaluator with the names and models that files, code and tests use for it.

    Attributes:
        evaluator_id: such as ``tool-call-count``; files may put ``uipath-`` before it, as the evaluation sample does.
        class_name: its name in the guides, and the name of its scores unless the configuration has another.
        config: model of its configuration, which names the model of its criteria in files.
        evaluator: takes the criteria that the configuration builds.
    """

    evaluator_id: str
    class_name: str
    config: type[EvaluatorConfig]
    evaluator: Evaluator[Never]


class ForeignEvaluator(Enum):
    """Marks what belongs to the sample's family and is not run here."""

    FOREIGN = "foreign"


EVALUATOR_TYPES: dict[str, EvaluatorType] = {
    kind.evaluator_id: kind
    for kind in (
        EvaluatorType(evaluator_id="tool-call-count", class_name="ToolCallCountEvaluator", config=CountConfig, evaluator=CountEvaluator()),
        EvaluatorType(evaluator_id="tool-call-order", class_name="ToolCallOrderEvaluator", config=OrderConfig, evaluator=OrderEvaluator()),
        EvaluatorType(evaluator_id="tool-call-args", class_name="ToolCallArgsEvaluator", config=ArgsConfig, evaluator=ArgsEvaluator()),
        EvaluatorType(
            evaluator_id="tool-call-output", class_name="ToolCallOutputEvaluator", config=OutputConfig, evaluator=OutputEvaluator()
        ),
    )
}
"""The registry of evaluators, by ID: whatever knows an evaluator by name or by its criteria asks here, each time anew."""

# They ask a model, or look at the agent's final answer. Names and IDs as the sample's tools write them; with file:// users bring
# an evaluator of their own.
FOREIGN_PATTERN = re.compile(
    r"^(?:(?:uipath-)?(?:llm-judge-.*|exact-match|contains|json-similarity|binary-classification"
    r"|multiclass-classification|faithfulness|context-precision|trajectory)|file://.*)$",
)
_FOREIGN_NAMES = frozenset(
    {
        "ExactMatchEvaluator",
        "ContainsEvaluator",
        "JsonSimilarityEvaluator",
        "BinaryClassificationEvaluator",
        "MulticlassClassificationEvaluator",
        "LLMJudgeOutputEvaluator",
        "LLMJudgeSemanticSimilarity",
        "LLMJudgeSimulationTrajectoryEvaluator",
        "LLMJudgeStrictJSONSimilarityOutputEvaluator",
        "LLMJudgeTrajectoryEvaluator",
        "LLMJudgeTrajectorySimulationEvaluator",
        "TrajectoryEvaluator",
    },
)


def ids_of(kind: EvaluatorType) -> tuple[str, str]:
    """Return the IDs that files may use for an evaluator."""
    return kind.evaluator_id, _PREFIX + kind.evaluator_id


def type_of(evaluator_type_id: str) -> EvaluatorType | ForeignEvaluator | None:
    """Return what an ``evaluatorTypeId`` stands for; None if nobody knows it."""
    bare = evaluator_type_id.removeprefix(_PREFIX)
    if bare in EVALUATOR_TYPES:
        return EVALUATOR_TYPES[bare]
    return ForeignEvaluator.FOREIGN if FOREIGN_PATTERN.fullmatch(evaluator_type_id) else None


def referred(name: str) -> EvaluatorType | ForeignEvaluator | None:
    """Return what an eval set means by a name that none of its evaluators has: an ID or a class name; None if nobody knows it."""
    for kind in EVALUATOR_TYPES.values():
        if name in (*ids_of(kind), kind.class_name):
            return kind
    return ForeignEvaluator.FOREIGN if name in _FOREIGN_NAMES or type_of(name) is ForeignEvaluator.FOREIGN else None


def type_of_criteria(criteria: Criteria) -> EvaluatorType:
    """Return the evaluator that takes these criteria."""
    return next(kind for kind in EVALUATOR_TYPES.values() if kind.config.builds is type(criteria))


def evaluators_by_criteria() -> Evaluators:
    """Return all evaluators by class of the criteria that they take."""
    return {kind.config.builds: kind.evaluator for kind in EVALUATOR_TYPES.values()}
