"""An evaluator as a contributor would add one: fails traces that use more than so many different tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from otel_toolcall_eval.model.criteria import Criteria
from otel_toolcall_eval.model.score import Comparison, ExpectationOutcome, Outcome, Score
from otel_toolcall_eval.settings.config_model import ConfigModel
from otel_toolcall_eval.settings.criteria_models import EVALUATOR_TYPES, EvaluatorConfig, EvaluatorType
from otel_toolcall_eval.settings.types import Natural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_toolcall_eval.model.tool_call import CallLog


@dataclass(frozen=True, slots=True, kw_only=True)
class VarietyCriteria(Criteria):
    """How many different tools may be called."""

    most: int

    @property
    def expectation_count(self) -> int:
        """There is one."""
        return 1


class VarietyModel(ConfigModel):
    """Criteria of ToolCallVarietyEvaluator."""

    tool_call_variety: Natural = Field(description="Greatest number of different tools.")


class VarietyConfig(EvaluatorConfig):
    """``evaluatorConfig`` of ToolCallVarietyEvaluator."""

    expects = VarietyModel
    builds = VarietyCriteria

    def build(self, expected: VarietyModel) -> VarietyCriteria:
        """Return criteria under this configuration."""
        return VarietyCriteria(most=expected.tool_call_variety)


@dataclass(frozen=True, slots=True, kw_only=True)
class VarietyJustification:
    """The tools that were called."""

    tools: tuple[str, ...]
    most: int

    def details(self) -> Mapping[str, object]:
        """Return the tools and their bound."""
        return {"explained_tool_call_variety": {"tools": list(self.tools), "most": self.most}}

    def explain(self) -> str:
        """Return one line."""
        if len(self.tools) <= self.most:
            return f"at most {self.most} different tools"  # of the criteria alone: exporters reuse the text of criteria that are met
        return f"{len(self.tools)} different tools ({', '.join(self.tools)}), at most {self.most} expected"

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the bound beside the number."""
        matched = len(self.tools) <= self.most
        yield Comparison(label="variety", expected=f"at most {self.most} tools", actual=f"{len(self.tools)} tools", matched=matched)


class VarietyEvaluator:
    """Scores 1.0 if a trace uses no more different tools than allowed, else 0.0."""

    def evaluate(self, criteria: VarietyCriteria, log: CallLog) -> Score:
        """Return the score; calls that are missing could only add tools."""
        tools = tuple(sorted({call.name for call in log.calls}))
        met = len(tools) <= criteria.most
        return Score(
            value=float(met),
            lowest=0.0 if log.open_ended else float(met),
            highest=float(met),
            justification=VarietyJustification(tools=tools, most=criteria.most),
            outcomes=(ExpectationOutcome(tool="*", outcome=Outcome.MATCHED if met else Outcome.WRONG_COUNT),),
        )


VARIETY = EvaluatorType(
    evaluator_id="tool-call-variety", class_name="ToolCallVarietyEvaluator", config=VarietyConfig, evaluator=VarietyEvaluator()
)


def register() -> None:
    """Add the evaluator to the registry of this process."""
    EVALUATOR_TYPES[VARIETY.evaluator_id] = VARIETY
