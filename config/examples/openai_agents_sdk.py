"""An agent made with the OpenAI Agents SDK. Its own traces go to OpenAI; OpenInference turns them into OpenTelemetry spans.

Run it: pip install otel-toolcall-eval openai-agents openinference-instrumentation-openai-agents
        python config/examples/openai_agents_sdk.py
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from order_desk import CRITERIA, QUESTION, SCRIPT, get_order, refund_order, show

from otel_toolcall_eval import EvaluationResult, ToolCallEvalSpanProcessor, expect_tool_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from order_desk import Step

provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor(CRITERIA))
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)  # by default in place of the exporter to OpenAI


class ScriptedModel(Model):
    """A model that asks for the tools of a script, then answers."""

    def __init__(self, script: Sequence[Step]) -> None:
        """Begin at the script's first step."""
        said = ResponseOutputText(type="output_text", text="Done.", annotations=[])
        self._answers = iter([
            *(
                ResponseFunctionToolCall(type="function_call", call_id=f"call-{number}", name=name, arguments=json.dumps(arguments))
                for number, (name, arguments) in enumerate(script)
            ),
            ResponseOutputMessage(type="message", id="message", role="assistant", status="completed", content=[said]),
        ])  # fmt: skip

    async def get_response(self, *_: object, **__: object) -> ModelResponse:
        """Return the next step."""
        return ModelResponse(output=[next(self._answers)], usage=Usage(), response_id=None)

    def stream_response(self, *_: object, **__: object) -> None:
        """Refuse: this script is not streamed."""
        raise NotImplementedError


def run(script: Sequence[Step] = SCRIPT) -> dict[str, EvaluationResult]:
    """Let the agent work, and return the verdicts on it."""
    agent = Agent(name="order_desk", model=ScriptedModel(script), tools=[function_tool(get_order), function_tool(refund_order)])
    with expect_tool_calls("refund") as expectation:
        Runner.run_sync(agent, QUESTION)
    return expectation.result()


if __name__ == "__main__":
    show(run())
