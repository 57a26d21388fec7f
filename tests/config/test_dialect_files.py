"""The example dialects load, do what their comments say, and a slip in one of them is told in the right words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.model.tool_call import CallStatus, ContentState
from otel_toolcall_eval.settings.dialect_file import build_extractor, default_extractor
from tests.extraction.recordings import calls_of, cases, recordings, requests_of, spans_of
from tests.extraction.spans import agent, make

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Span

DIALECTS = Path(__file__).parent.parent.parent / "config" / "dialects"
HANDOFFS, OWN = DIALECTS / "handoffs.yaml", DIALECTS / "own_agent.yaml"


def test_every_dialect_file_is_looked_at_here() -> None:
    assert sorted(DIALECTS.iterdir()) == [HANDOFFS, OWN]
    build_extractor([HANDOFFS, OWN])


HANDOFF_SPANS = [
    pytest.param(
        make(
            1, name="handoff to booker", scope="openinference.instrumentation.openai_agents", attributes={"openinference.span.kind": "TOOL"}
        ),
        id="openinference",
    ),
    pytest.param(
        make(1, name="booker.handoff", attributes={"traceloop.span.kind": "handoff", "gen_ai.operation.name": "handoff"}), id="traceloop"
    ),
    pytest.param(
        make(1, attributes={"logfire.msg_template": "Handoff: {from_agent} → {to_agent}", "from_agent": "a", "to_agent": "booker"}),
        id="logfire",
    ),
]


@pytest.mark.parametrize("span", HANDOFF_SPANS)
def test_handoffs_are_calls_of_an_agent_only_if_asked(span: Span) -> None:
    assert default_extractor().extract([span]).calls == ()
    (call,) = build_extractor([HANDOFFS]).extract([span]).calls
    assert (call.name, call.kind.value, call.dialects) == ("booker", "agent", ("user:handoff",))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases() if "user_dialect" not in case])
def test_the_handoff_dialects_change_nothing_else(case: dict[str, object]) -> None:
    extractor = build_extractor([HANDOFFS])
    found = extractor.extract(spans_of(case["otlp"], extractor)).calls
    expected = default_extractor().extract(spans_of(case["otlp"])).calls
    assert [call.name for call in found if call.dialects != ("user:handoff",)] == [call.name for call in expected]


def step(number: int = 1, **attributes: str) -> Span:
    return make(
        number,
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
        events=[("acme.tool.output", {"text": "18"})],
    )


def test_the_own_dialect_reads_what_its_comments_say() -> None:
    first = step(1, acme__step="TOOL_USE", acme__step__function="f", acme__step__id="-", acme__step__in='{"payload": {"args": {"a": 1}}}')
    second = step(2, acme__step="TOOL_USE", acme__step__function="g", acme__step__arg__city="Paris", acme__step__failed="true")
    found = build_extractor([OWN]).extract([first, second, step(3, acme__step="PLAN")])
    assert [(call.name, call.call_id, call.arguments.content.value, call.output.content.value) for call in found.calls] == [
        ("f", None, {"a": 1}, "18"),
        ("g", None, {"city": "Paris"}, "18"),
    ]
    assert [call.status for call in found.calls] == [CallStatus.OK, CallStatus.ERROR]
    assert [ignored.reason for ignored in found.ignored] == ["Acme step PLAN"]


def test_a_hidden_value_of_the_own_dialect_is_known_as_one() -> None:
    span = step(acme__step="TOOL_USE", acme__step__function="f", acme__step__in='{"payload": {"args": "<secret>"}}')
    assert build_extractor([OWN]).extract([span]).calls[0].arguments.state is ContentState.REDACTED


def test_a_span_with_nothing_but_a_tool_name_is_a_call_only_if_asked() -> None:
    span = make(1, scope="acme.legacy", attributes={"gen_ai.tool.name": "f"})
    assert default_extractor().extract([span]).calls == ()
    assert [call.name for call in build_extractor([OWN]).extract([span]).calls] == ["f"]
    assert build_extractor([OWN]).extract([agent(1, "a")]).calls == ()


def test_a_recording_is_read_alike_with_the_examples_in_place() -> None:
    recording = next(name for name in recordings() if name.startswith("crewai/openinference"))
    spans = [span for request in requests_of(recording) for span in request]
    found = [call.name for call in build_extractor([HANDOFFS, OWN]).extract(spans).calls]
    assert found == [call.name for call in calls_of(spans)]


@pytest.mark.parametrize(
    ("path", "old", "new", "told"),
    [
        pytest.param(HANDOFFS, "kind: agent", "kind: agnt", "agnt", id="kind"),
        pytest.param(OWN, "role: ignore", "rol: ignore", "rol", id="key"),
        pytest.param(OWN, "exists: true}]\n", "exist: true}]\n", "exist", id="comparison"),
    ],
)
def test_a_slip_in_a_dialect_is_told(path: Path, old: str, new: str, told: str, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    slipped = tmp_path / path.name
    slipped.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        build_extractor([slipped])
    assert any(told in str(problem) and path.name in problem.where for problem in caught.value.problems)
