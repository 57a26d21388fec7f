"""The four evaluators by ID and class name, and the ones of the sample's family that are not ours to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from otel_toolcall_eval.settings.criteria_shapes import ArgsConfig, CountConfig, OrderConfig, OutputConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.settings.criteria_shapes import ConfigShape

_PREFIX = "uipath-"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorType:
    """One of the four evaluators.

    Attributes:
        evaluator_id: such as ``tool-call-count``; files may put ``uipath-`` before it (SEMANTICS, section 7, row 18).
        class_name: its name in the guides, and the name of its scores unless the configuration has another.
        config: shape of its configuration.
    """

    evaluator_id: str
    class_name: str
    config: type[ConfigShape]


class Foreign(Enum):
    """Marks what belongs to the sample's family and is not run here."""

    FOREIGN = "foreign"


TYPES = (
    EvaluatorType(evaluator_id="tool-call-count", class_name="ToolCallCountEvaluator", config=CountConfig),
    EvaluatorType(evaluator_id="tool-call-order", class_name="ToolCallOrderEvaluator", config=OrderConfig),
    EvaluatorType(evaluator_id="tool-call-args", class_name="ToolCallArgsEvaluator", config=ArgsConfig),
    EvaluatorType(evaluator_id="tool-call-output", class_name="ToolCallOutputEvaluator", config=OutputConfig),
)

BY_ID: Mapping[str, EvaluatorType] = {kind.evaluator_id: kind for kind in TYPES}

BY_REFERENCE: Mapping[str, EvaluatorType] = {
    **BY_ID,
    **{_PREFIX + kind.evaluator_id: kind for kind in TYPES},
    **{kind.class_name: kind for kind in TYPES},
}
"""What an eval set may call an evaluator that it does not configure: its ID, with or without prefix, or its class name."""

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


def type_of(evaluator_type_id: str) -> EvaluatorType | Foreign | None:
    """Return what an ``evaluatorTypeId`` stands for; None if nobody knows it."""
    bare = evaluator_type_id.removeprefix(_PREFIX)
    if bare in BY_ID:
        return BY_ID[bare]
    return Foreign.FOREIGN if FOREIGN_PATTERN.fullmatch(evaluator_type_id) else None


def referred(name: str) -> EvaluatorType | Foreign | None:
    """Return what an eval set means by a name that no evaluator of the load has; None if nobody knows it."""
    if name in BY_REFERENCE:
        return BY_REFERENCE[name]
    return Foreign.FOREIGN if name in _FOREIGN_NAMES or type_of(name) is Foreign.FOREIGN else None
