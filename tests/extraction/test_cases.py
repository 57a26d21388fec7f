from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.extraction.dialect_parser import parse_dialects
from otel_toolcall_eval.extraction.extractor import Extractor
from otel_toolcall_eval.model.tool_call import ContentState
from otel_toolcall_eval.settings.dialect_file import USER_PRIORITY, default_extractor, shipped_dialects
from otel_toolcall_eval.settings.patterns import compile_pattern
from tests.extraction.recordings import cases, plain, spans_of

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import ToolCall


def _extractor(case: dict[str, Any]) -> Extractor:
    if "user_dialect" not in case:
        return default_extractor()
    document = {"dialects": [case["user_dialect"]]}
    users = parse_dialects(
        document, where="settings.yaml", compile_pattern=compile_pattern, family_prefix="user:", priority_offset=USER_PRIORITY
    )
    return Extractor((*shipped_dialects(), *users))


def _shown(call: ToolCall) -> dict[str, object]:
    arguments, output = call.arguments.content, call.output.content
    return {
        "name": call.name,
        "aliases": list(call.aliases),
        "kind": call.kind.value,
        "phase": call.phase.value,
        "call_id": call.call_id,
        "arguments": plain(arguments.value) if arguments.state is ContentState.FULL else None,
        "arguments_state": arguments.state.value,
        "arguments_raw": arguments.text,
        "arguments_partial": arguments.partial,
        "output": plain(output.value),
        "output_state": output.state.value,
        "status": call.status.value,
        "error_type": call.error_type,
        "error_message": call.error_message,
        "agent": call.agent,
        "attempts": call.attempts,
        "failed_attempts": call.failed_attempts,
        "from_cache": call.from_cache,
        "duration_known": call.duration_known,
        "parallel_group": call.parallel_group,
        "nested_in": call.nested_in and call.nested_in.hex(),
        "dialects": list(call.dialects),
        "trace_id": call.trace_id.hex(),
        "span_id": call.span_id.hex(),
        "parent_span_id": call.parent_span_id and call.parent_span_id.hex(),
        "merged_span_ids": [span_id.hex() for span_id in call.merged_span_ids],
        "start_unix_nano": str(call.start_unix_ns),
        "end_unix_nano": str(call.end_unix_ns),
        "evidence": call.evidence.value,
        "conversation_id": call.conversation_id,
        "positional": list(call.positional),
        "args_names_from": call.args_names_from,
        "event_unix_nano": None if call.event_unix_ns is None else str(call.event_unix_ns),
        "duration_ms": None if call.event_duration_ns is None else call.event_duration_ns // 1_000_000,
    }


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases()])
def test_every_field_of_every_expected_call_is_read(case: dict[str, Any]) -> None:
    extractor = _extractor(case)
    extraction = extractor.extract(spans_of(case["otlp"], extractor))
    expected = case["expected_tool_calls"]
    shown = [_shown(call) for call in extraction.calls]
    assert [{key: call[key] for key in wanted} for call, wanted in zip(shown, expected, strict=True)] == expected
    assert {span.span_id.hex() for span in extraction.ignored} == {span["span_id"] for span in case["expected_ignored_spans"]}
    assert all(span.reason for span in extraction.ignored)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases()])
def test_the_order_of_arrival_changes_nothing(case: dict[str, Any]) -> None:
    extractor = _extractor(case)
    spans = spans_of(case["otlp"], extractor)
    forward, backward = extractor.extract(spans), extractor.extract([*reversed(spans), *spans])
    assert [_shown(call) for call in forward.calls] == [_shown(call) for call in backward.calls]
    assert (forward.ignored, forward.hints, forward.doubts) == (backward.ignored, backward.hints, backward.doubts)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases()])
def test_spans_that_show_calls_are_relevant(case: dict[str, Any]) -> None:
    extractor = _extractor(case)
    spans = spans_of(case["otlp"], extractor)
    relevant = {span.span_id.hex() for span in spans if extractor.is_relevant(span)}
    needed = {call["span_id"] for call in case["expected_tool_calls"]}
    needed.update(span_id for call in case["expected_tool_calls"] for span_id in call["merged_span_ids"])
    assert needed <= relevant


def test_the_cases_are_all_there() -> None:
    assert len(cases()) == 134
    assert len({json.dumps(case, sort_keys=True) for case in cases()}) == 134
