"""An agent made with LangGraph, whose runs OpenInference turns into spans.

Run it: pip install otel-toolcall-eval langgraph openinference-instrumentation-langchain; python config/examples/langgraph_agent.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from order_desk import CRITERIA, QUESTION, SCRIPT, get_order, refund_order, show

from otel_toolcall_eval import EvaluationResult, ToolCallEvalSpanProcessor, expect_tool_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from order_desk import Step

provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor(CRITERIA))
LangChainInstrumentor().instrument(tracer_provider=provider)


def scripted_model(script: Sequence[Step]) -> GenericFakeChatModel:
    """Return a model that asks for the tools of the script, then answers."""
    asked = [
        AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])
        for number, (name, arguments) in enumerate(script)
    ]
    return GenericFakeChatModel(messages=iter([*asked, AIMessage("Done.")]))


def run(script: Sequence[Step] = SCRIPT) -> dict[str, EvaluationResult]:
    """Let the agent work, and return the verdicts on it."""
    model = scripted_model(script)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([get_order, refund_order]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    with expect_tool_calls("refund") as expectation:
        graph.compile(name="order_desk").invoke({"messages": [("user", QUESTION)]})
    return expectation.result()


if __name__ == "__main__":
    show(run())
