"""An agent that makes its own spans with the OpenTelemetry SDK, by the GenAI conventions.

Run it: pip install otel-toolcall-eval; python config/examples/plain_sdk.py
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import TracerProvider
from order_desk import CRITERIA, SCRIPT, get_order, refund_order, show

from otel_toolcall_eval import EvaluationResult, ToolCallEvalSpanProcessor, expect_tool_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from order_desk import Step

provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor(CRITERIA))
tracer = provider.get_tracer("order-desk")

TOOLS = {"get_order": get_order, "refund_order": refund_order}


def call_tool(name: str, arguments: dict[str, object]) -> object:
    """Call a tool in a span that says what went in and what came out."""
    with tracer.start_as_current_span(f"execute_tool {name}") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", name)
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(arguments))
        output = TOOLS[name](**arguments)
        span.set_attribute("gen_ai.tool.call.result", output if isinstance(output, str) else json.dumps(output))
        return output


def run(script: Sequence[Step] = SCRIPT) -> dict[str, EvaluationResult]:
    """Let the agent work, and return the verdicts on it."""
    with expect_tool_calls("refund") as expectation, tracer.start_as_current_span("invoke_agent order_desk"):
        for name, arguments in script:  # a model would choose them
            call_tool(name, arguments)
    return expectation.result()


if __name__ == "__main__":
    show(run())
