"""An agent made with Google's Agent Development Kit, which writes spans itself, to the global provider.

Run it: pip install otel-toolcall-eval google-adk; python config/examples/google_adk_agent.py
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from order_desk import CRITERIA, QUESTION, SCRIPT, get_order, refund_order, show
from pydantic import PrivateAttr

from otel_toolcall_eval import EvaluationResult, ToolCallEvalSpanProcessor, expect_tool_calls

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from order_desk import Step

provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor(CRITERIA))
trace.set_tracer_provider(provider)
# Without this ADK keeps arguments and outputs out of its spans, and verdicts on them are inconclusive.
os.environ.setdefault("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")


class ScriptedModel(BaseLlm):
    """A model that asks for the tools of a script, then answers."""

    _answers: Iterator[Part] = PrivateAttr()

    def __init__(self, script: Sequence[Step]) -> None:
        """Begin at the script's first step."""
        super().__init__(model="scripted")
        asked = [Part.from_function_call(name=name, args=arguments) for name, arguments in script]
        self._answers = iter([*asked, Part.from_text(text="Done.")])

    async def generate_content_async(self, *_: object, **__: object) -> AsyncGenerator[LlmResponse]:
        """Yield the next step."""
        yield LlmResponse(content=Content(role="model", parts=[next(self._answers)]))


def run(script: Sequence[Step] = SCRIPT) -> dict[str, EvaluationResult]:
    """Let the agent work, and return the verdicts on it."""
    agent = LlmAgent(name="order_desk", model=ScriptedModel(script), tools=[get_order, refund_order])
    with expect_tool_calls("refund") as expectation:
        asyncio.run(InMemoryRunner(agent).run_debug(QUESTION, quiet=True))
    return expectation.result()


if __name__ == "__main__":
    show(run())
