"""The worked examples: each runs offline, and its verdicts are those on what its tools noted themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval import evaluate
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.document import read_document
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval import EvaluationResult

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "config" / "examples"
PLAY = Path(__file__).parent / "play.py"
FRAMEWORKS_PYTHON = ROOT / ".build" / "examples" / "bin" / "python"

PLAIN = "plain_sdk"
FRAMEWORKS = ("google_adk_agent", "langgraph_agent", "openai_agents_sdk", "pydantic_ai_agent")
PAGE_LINES = 75

GOOD = [
    ["get_order", {"order_id": "A-7"}, {"order_id": "A-7", "total": 19.99}],
    ["refund_order", {"order_id": "A-7", "amount": 19.99}, "refunded 19.99"],
]
MISBEHAVING = [
    ["refund_order", {"order_id": "A-7", "amount": 199.9}],
    ["get_order", {"order_id": "A-8"}],
    ["get_order", {"order_id": "A-7"}],
]


def judged(calls: Sequence[tuple[str, dict[str, object], object]]) -> dict[str, EvaluationResult]:
    """Return the verdicts on calls as the tools noted them, by way of spans that say just that."""
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("truth")
    for name, arguments, output in calls:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": output if isinstance(output, str) else json.dumps(output),
        }
        tracer.start_span(f"execute_tool {name}", attributes=attributes).end()
    document = read_document(EXAMPLES / "order_desk.yaml", Diagnostics())
    assert document is not None
    (item,) = document.value["evaluations"]  # type: ignore[index]
    return evaluate(spans.get_finished_spans(), item["evaluation_criterias"])


@pytest.mark.parametrize("example", [PLAIN, *(pytest.param(name, marks=pytest.mark.examples) for name in FRAMEWORKS)])
def test_the_verdicts_of_an_example_are_those_on_what_its_tools_noted(example: str) -> None:
    python = sys.executable if example == PLAIN else str(FRAMEWORKS_PYTHON)
    command = [python, str(PLAY), str(EXAMPLES / f"{example}.py"), json.dumps(MISBEHAVING)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    played = json.loads(done.stdout.splitlines()[-1])

    assert played["good"] == GOOD
    table = [line.split(maxsplit=3) for line in played["shown"].splitlines()]
    assert [line[:3] for line in table] == [[f"ToolCall{kind}Evaluator", "pass", "1.00"] for kind in ("Count", "Order", "Args", "Output")]

    assert [[name, arguments] for name, arguments, _ in played["calls"]] == MISBEHAVING
    truth = judged(played["calls"])
    assert {result.label for result in truth.values()} == {"fail"}
    assert played["verdicts"] == {
        name: {"label": result.label, "score": result.score, "explanation": result.explanation, "details": result.details.details()}
        for name, result in truth.items()
    }


def test_every_example_is_played_and_none_is_longer_than_a_page() -> None:
    programs = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(programs) == {"order_desk", PLAIN, *FRAMEWORKS}
    assert max(programs.values()) <= PAGE_LINES
