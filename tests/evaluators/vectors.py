"""Reads the golden vectors: criteria, and the calls that their spans record by the guides' own rules (docs/semantics.md, section 1)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.model.criteria import (
    ArgsCriteria,
    ArgsExpectation,
    CountCriteria,
    CountExpectation,
    Criteria,
    Operator,
    OrderCriteria,
    OutputCriteria,
    OutputExpectation,
)
from otel_toolcall_eval.model.payload.text import UnreadableTextError, read_text
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Payload, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import Json
    from otel_toolcall_eval.model.trace import Value

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "conformance"
CRITERIA_KEYS = {
    "tool-call-count": ("toolCallsCount", "tool_calls_count"),
    "tool-call-order": ("toolCallsOrder", "tool_calls_order"),
    "tool-call-args": ("toolCalls", "tool_calls"),
    "tool-call-output": ("toolOutputs", "tool_outputs"),
}


@dataclass(frozen=True, kw_only=True)
class Vector:
    id: str
    criteria: Criteria
    log: CallLog
    score: float
    lcs: list[str] | None


def read_vectors() -> list[Vector]:
    """All vectors whose criteria are valid; those with an expected error are for the settings room."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN.glob("*.json"))]
    return [_vector(_expand(entry)) for file in files for entry in file["vectors"] if "error" not in entry["expected"]]


def _expand(value: object) -> Mapping[str, object]:
    """Replace ``{"$repeat": [text, n]}`` at any depth."""
    return cast("Mapping[str, object]", _expand_any(value))


def _expand_any(value: object) -> object:
    if isinstance(value, dict):
        if set(value) == {"$repeat"}:
            text, times = value["$repeat"]
            return text * times
        return {key: _expand_any(member) for key, member in value.items()}
    return [_expand_any(item) for item in value] if isinstance(value, list) else value


def _vector(entry: Mapping[str, object]) -> Vector:
    expected = cast("Mapping[str, object]", entry["expected"])
    return Vector(
        id=str(entry["id"]),
        criteria=_criteria(entry),
        log=CallLog(calls=_calls(cast("Sequence[Mapping[str, object]]", entry["spans"]))),
        score=cast("float", expected["score"]),
        lcs=cast("list[str] | None", expected.get("lcs")),
    )


def _criteria(entry: Mapping[str, object]) -> Criteria:
    evaluator = str(entry["evaluator"])
    config = cast("Mapping[str, object]", entry["config"] or {})
    given = entry["criteria"] or config.get("default_evaluation_criteria") or config.get("defaultEvaluationCriteria")
    listed = next(
        cast("Mapping[str, object]", given)[key] for key in CRITERIA_KEYS[evaluator] if key in cast("Mapping[str, object]", given)
    )
    strict = config.get("strict") in {True, "true"}
    if evaluator == "tool-call-count":
        counts = cast("Mapping[str, tuple[str, int]]", listed)
        return CountCriteria(
            expectations=tuple(
                CountExpectation(tool=tool, operator=Operator("=" if sign == "==" else sign), count=count)
                for tool, (sign, count) in counts.items()
            ),
            strict=strict,
        )
    if evaluator == "tool-call-order":
        return OrderCriteria(expected=tuple(cast("Sequence[str]", listed)), strict=strict)
    if evaluator == "tool-call-args":
        calls = cast("Sequence[Mapping[str, Json]]", listed)
        return ArgsCriteria(
            expectations=tuple(
                ArgsExpectation(
                    tool=str(call["name"]), arguments=cast("Mapping[str, Json]", call["args"]), call_id=cast("str | None", call.get("id"))
                )
                for call in calls
            ),
            strict=strict,
            subset=config.get("subset") is True,
        )
    outputs = cast("Sequence[Mapping[str, Json]]", listed)
    return OutputCriteria(
        expectations=tuple(
            OutputExpectation(tool=str(output["name"]), output=output["output"], call_id=cast("str | None", output.get("id")))
            for output in outputs
        ),
        strict=strict,
    )


def _calls(spans: Sequence[Mapping[str, object]]) -> tuple[ToolCall, ...]:
    calls = []
    for span in sorted(spans, key=lambda span: (cast("int", span["start_time"]), cast("int", span["end_time"]))):
        attributes = cast("Mapping[str, Value]", span["attributes"])
        name = attributes.get("tool.name")
        if not name or attributes.get("tool.synthesized") is True:
            continue
        call_id = attributes.get("tool.id")
        calls.append(
            ToolCall(
                name=str(name),
                call_id=None if call_id is None else str(call_id),
                arguments=Payload(attributes.get("input.value"), _arguments),
                output=Payload(attributes["output.value"], _output)
                if "output.value" in attributes
                else Payload.of(Content(state=ContentState.FULL, nothing=True)),
            )
        )
    return tuple(calls)


def _arguments(recorded: Value) -> Content:
    """docs/semantics.md, 1.4."""
    text = recorded if isinstance(recorded, str) else None
    value = cast("Json", recorded)
    if isinstance(value, str):
        try:
            value = read_text(value) if value.strip() else None
        except UnreadableTextError:
            return Content(state=ContentState.UNPARSED, text=text)
    if value is None:
        return Content(state=ContentState.FULL, value={}, text=text, nothing=True)
    if not isinstance(value, dict):
        return Content(state=ContentState.UNPARSED, text=text)
    return Content(state=ContentState.FULL, value=value, text=text)


def _output(recorded: Value) -> Content:
    """docs/semantics.md, 1.5."""
    text = recorded if isinstance(recorded, str) else None
    value = cast("Json", recorded)
    if text is not None:
        try:
            value = read_text(text)
        except UnreadableTextError:
            value = text
    return Content(state=ContentState.FULL, value=value, text=text)
