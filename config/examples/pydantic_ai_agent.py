"""An agent made with Pydantic AI, which writes spans itself once it is told to.

Run it: pip install otel-toolcall-eval pydantic-ai-slim; python config/examples/pydantic_ai_agent.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import TracerProvider
from order_desk import CRITERIA, QUESTION, SCRIPT, get_order, refund_order, show
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from otel_toolcall_eval import EvaluationResult, ToolCallEvalSpanProcessor, expect_tool_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from order_desk import Step

provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor(CRITERIA))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))


def scripted_model(script: Sequence[Step]) -> FunctionModel:
    """Return a model that asks for the tools of the script, then answers."""
    answers = iter([*(ToolCallPart(name, arguments) for name, arguments in script), TextPart("Done.")])
    return FunctionModel(lambda _messages, _info: ModelResponse(parts=[next(answers)]))


def run(script: Sequence[Step] = SCRIPT) -> dict[str, EvaluationResult]:
    """Let the agent work, and return the verdicts on it."""
    agent = Agent(scripted_model(script), name="order_desk", tools=[get_order, refund_order])
    with expect_tool_calls("refund") as expectation:
        agent.run_sync(QUESTION)
    return expectation.result()


if __name__ == "__main__":
    show(run())
