"""The golden vectors, and their spans in every form in which spans reach us."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).parent / "golden" / "conformance"
BASE_UNIX_NS = 1_790_000_000_000_000_000  # the vectors' times begin at 0, which OTLP takes for "not set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One golden vector."""

    id: str
    evaluator: str
    config: Mapping[str, Any]
    criteria: Any
    spans: Sequence[Mapping[str, Any]]
    expected: Mapping[str, Any]

    @property
    def trace_id(self) -> bytes:
        """Return a trace ID of its own."""
        return VECTOR_NUMBERS[self.id].to_bytes(16, "big")


def _load() -> list[Vector]:
    vectors = []
    for path in sorted(FOLDER.glob("*.json")):
        for raw in json.loads(path.read_text(encoding="utf-8"))["vectors"]:
            expanded = _expand(raw)
            vectors.append(Vector(**{name: expanded[name] for name in ("id", "evaluator", "config", "criteria", "spans", "expected")}))
    return vectors


def _expand(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        if set(value) == {"$repeat"}:
            text, times = value["$repeat"]
            return text * times
        return {key: _expand(item) for key, item in value.items()}
    return [_expand(item) for item in value] if isinstance(value, list) else value


VECTORS = _load()
VECTOR_NUMBERS = {vector.id: number for number, vector in enumerate(VECTORS, start=1)}
SCORED = [vector for vector in VECTORS if "score" in vector.expected]
REFUSED = [vector for vector in VECTORS if "error" in vector.expected]


def sdk_spans(vector: Vector) -> list[ReadableSpan]:
    """Return the spans as the SDK's, without a context, as in the guides."""
    return [
        ReadableSpan(
            name=raw["name"],
            start_time=raw["start_time"],
            end_time=raw["end_time"],
            attributes={key: tuple(value) if isinstance(value, list) else value for key, value in raw["attributes"].items()},
            status=Status(StatusCode[raw.get("status", "UNSET")]),
        )
        for raw in vector.spans
    ]


def otlp_request(vector: Vector) -> dict[str, object]:
    """Return the spans as an OTLP/JSON request, in the vector's order, below a root that names the vector as its criteria."""
    last = max((raw["end_time"] for raw in vector.spans), default=0)
    named = {"toolcall_eval.criteria": vector.id}
    root = _otlp_span(vector, 1, {"name": "agent", "start_time": 0, "end_time": last, "attributes": named}, None)
    children = [_otlp_span(vector, number, raw, 1) for number, raw in enumerate(vector.spans, start=2)]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "golden"}, "spans": [*children, root]}]}]}


def _otlp_span(vector: Vector, number: int, raw: Mapping[str, Any], parent: int | None) -> dict[str, object]:
    codes = {"UNSET": 0, "OK": 1, "ERROR": 2}
    span: dict[str, object] = {
        "traceId": vector.trace_id.hex(),
        "spanId": f"{number:016x}",
        "name": raw["name"],
        "kind": 1,
        "flags": 0x100,
        "startTimeUnixNano": str(BASE_UNIX_NS + raw["start_time"]),
        "endTimeUnixNano": str(BASE_UNIX_NS + raw["end_time"]),
        "attributes": [{"key": key, "value": _any_value(value)} for key, value in raw["attributes"].items()],
        "status": {"code": codes[raw.get("status", "UNSET")]},
    }
    if parent is not None:
        span["parentSpanId"] = f"{parent:016x}"
    return span


def _any_value(value: object) -> dict[str, object]:  # noqa: PLR0911 - a table
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case list():
            return {"arrayValue": {"values": [_any_value(item) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": [{"key": key, "value": _any_value(item)} for key, item in value.items()]}}
        case _:
            raise TypeError(value)


def write_criteria(folder: Path, vectors: Sequence[Vector] = SCORED) -> Path:
    """Write the vectors' criteria as files in the sample's own form: an evaluator file each, and one eval set."""
    (folder / "evaluators").mkdir(parents=True)
    (folder / "eval-sets").mkdir()
    for vector in vectors:
        document = {"version": "1.0", "id": vector.id, "evaluatorTypeId": vector.evaluator, "evaluatorConfig": vector.config}
        (folder / "evaluators" / f"{vector.id}.json").write_text(json.dumps(document), encoding="utf-8")
    items = [{"id": vector.id, "name": vector.id, "inputs": {}, "evaluationCriterias": {vector.id: vector.criteria}} for vector in vectors]
    references = [vector.id for vector in vectors]
    eval_set = {"version": "1.0", "id": "golden", "name": "golden", "evaluatorRefs": references, "evaluations": items}
    (folder / "eval-sets" / "golden.json").write_text(json.dumps(eval_set), encoding="utf-8")
    return folder
