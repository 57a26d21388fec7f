from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.model.trace import Projection, StatusCode
from otel_toolcall_eval.otlp.json_traces import decode_document, decode_traces, parse_json
from tests.otlp.otlp_requests import KEEP, START_NS

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Span

SPAN: dict[str, object] = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "startTimeUnixNano": str(START_NS),
    "endTimeUnixNano": str(START_NS + 5),
}


KVLIST_WITH_TEXT_FOR_A_DOUBLE = {"kvlistValue": {"values": [{"key": "k", "value": {"doubleValue": "x"}}]}}


def request_with(*spans: object) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def decode_span(**fields: object) -> Span:
    (span,) = decode_traces(request_with({**SPAN, **fields}), KEEP).spans
    return span


def with_value(value: object) -> dict[str, object]:
    return {"attributes": [{"key": "id", "value": value}]}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}", id="empty object"),
        pytest.param(b'{"resourceSpans": null}', id="null for a list"),
        pytest.param(b'{"resourceSpans": [null, {}, {"scopeSpans": [null, {}, {"spans": []}]}]}', id="null for objects"),
        pytest.param(b'{"unheardOf": 1}', id="unknown field"),
        pytest.param(b"null", id="null"),
    ],
)
def test_defaults_and_unknown_fields_are_a_request_without_spans(body: bytes) -> None:
    assert decode_traces(body, KEEP).received == 0


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        pytest.param({}, "trace_id", bytes.fromhex("5b8efff798038103d269b633813fc60c"), id="ID in hexadecimal, not base64"),
        pytest.param(
            {"traceId": "5B8EFFF798038103D269B633813FC60C"},
            "trace_id",
            bytes.fromhex("5b8efff798038103d269b633813fc60c"),
            id="ID in capitals",
        ),
        pytest.param({"parentSpanId": "EEE19b7ec3c1b175"}, "parent_span_id", bytes.fromhex("eee19b7ec3c1b175"), id="parent"),
        pytest.param({"parentSpanId": "not hex"}, "parent_span_id", None, id="parent that is no ID"),
        pytest.param({"parentSpanId": ""}, "parent_span_id", None, id="empty parent"),
        pytest.param({"parentSpanId": None}, "parent_span_id", None, id="null parent"),
        pytest.param({"startTimeUnixNano": START_NS + 1}, "start_unix_ns", START_NS + 1, id="64-bit integer as number"),
        pytest.param({"startTimeUnixNano": 2**64 - 1}, "start_unix_ns", 2**64 - 1, id="largest time"),
        pytest.param({"startTimeUnixNano": 1.5e18}, "start_unix_ns", 1_500_000_000_000_000_000, id="integer with an exponent"),
        pytest.param({}, "kind", 0, id="kind omitted"),
        pytest.param({"kind": 3}, "kind", 3, id="kind as number"),
        pytest.param({"kind": "3"}, "kind", 0, id="kind as digits is no name"),
        pytest.param({"kind": "SPAN_KIND_CLIENT"}, "kind", 3, id="kind as name"),
        pytest.param({"kind": "SPAN_KIND_FUTURE"}, "kind", 0, id="unknown name"),
        pytest.param({"status": {}}, "status", StatusCode.UNSET, id="empty status"),
        pytest.param({"status": None}, "status", StatusCode.UNSET, id="null status"),
        pytest.param({"status": {"code": 2}}, "status", StatusCode.ERROR, id="status as number"),
        pytest.param({"status": {"code": "STATUS_CODE_OK"}}, "status", StatusCode.OK, id="status as name"),
        pytest.param({"status": {"code": 7}}, "status", StatusCode.UNSET, id="status of the future"),
        pytest.param({"status": {"message": "zu groß"}}, "status_message", "zu groß", id="status text"),
        pytest.param({"flags": 0x300}, "flags", 0x300, id="flags"),
        pytest.param({"droppedAttributesCount": "4"}, "dropped_attributes", 4, id="dropped, as text"),
        pytest.param({"name": "\ud83d\ude00 \ud83d!"}, "name", "\U0001f600 \ufffd!", id="half a surrogate pair"),
        pytest.param({"unheardOf": {"a": []}}, "name", "", id="unknown field"),
        pytest.param({"attributes": [None, {}, {"key": "id"}]}, "attributes", {"id": None}, id="attributes without anything"),
        pytest.param({"attributes": [{"key": "no", "value": 5}]}, "attributes", {}, id="what is not kept is not looked at"),
        pytest.param({"trace_id": "x", "start_time_unix_nano": 1}, "start_unix_ns", START_NS, id="snake_case is unknown"),
    ],
)
def test_a_field_is_read_in_all_its_spellings(fields: dict[str, object], name: str, value: object) -> None:
    assert getattr(decode_span(**fields), name) == value


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        pytest.param({"traceId": ""}, "1 span without a valid trace_id", id="empty ID"),
        pytest.param({"traceId": None}, "1 span without a valid trace_id", id="null ID"),
        pytest.param({"traceId": "W47/95gDgQPSabYzgT/GDA=="}, "1 span without a valid trace_id", id="ID in base64"),
        pytest.param({"traceId": "5b8efff7 98038103 d269b633 813fc60c"}, "1 span without a valid trace_id", id="blanks in the ID"),
        pytest.param({"traceId": "0" * 32}, "1 span without a valid trace_id", id="zero ID"),
        pytest.param({"spanId": "eee19b7ec3c1b1"}, "1 span without a valid span_id", id="short ID"),
        pytest.param({"startTimeUnixNano": None}, "1 span without a start time", id="null start"),
        pytest.param({"endTimeUnixNano": "0"}, "1 span without an end time", id="zero end"),
    ],
)
def test_a_faulty_span_is_rejected_alone(fields: dict[str, object], reasons: str) -> None:
    decoded = decode_traces(request_with(SPAN, {**SPAN, **fields}), KEEP)
    assert (len(decoded.spans), decoded.received, decoded.rejected, decoded.reasons) == (1, 2, 1, reasons)


@pytest.mark.parametrize(
    ("fields", "where", "what"),
    [
        pytest.param({"traceId": 5}, ".traceId", "expected hexadecimal text, found a number", id="ID as number"),
        pytest.param({"name": ["secret"]}, ".name", "expected text, found a list", id="name as list"),
        pytest.param({"startTimeUnixNano": "soon"}, ".startTimeUnixNano", "found text", id="time as words"),
        pytest.param({"startTimeUnixNano": "1_0"}, ".startTimeUnixNano", "found text", id="digits that only Python reads"),
        pytest.param(
            {"startTimeUnixNano": -1}, ".startTimeUnixNano", "an integer from 0 to 18446744073709551615, found a number", id="negative"
        ),
        pytest.param({"startTimeUnixNano": 2**64}, ".startTimeUnixNano", "found a number", id="65 bits"),
        pytest.param({"startTimeUnixNano": 0.5}, ".startTimeUnixNano", "found a number", id="fraction"),
        pytest.param({"startTimeUnixNano": True}, ".startTimeUnixNano", "found a boolean", id="boolean"),
        pytest.param({"kind": []}, ".kind", "found a list", id="kind as list"),
        pytest.param({"status": "ok"}, ".status", "expected an object, found text", id="status as text"),
        pytest.param({"status": {"code": []}}, ".status.code", "found a list", id="status code as list"),
        pytest.param({"attributes": {}}, ".attributes", "expected a list, found an object", id="attributes as object"),
        pytest.param({"attributes": [5]}, ".attributes[0]", "expected an object, found a number", id="attribute as number"),
        pytest.param({"attributes": [{"key": 1}]}, ".attributes[0].key", "expected text", id="key as number"),
        pytest.param(with_value("x"), ".attributes[0].value", "expected an object, found text", id="value as text"),
        pytest.param(
            with_value({"boolValue": "true"}), ".attributes[0].value.boolValue", "expected a boolean, found text", id="boolean as text"
        ),
        pytest.param(
            with_value({"arrayValue": {"values": [{}, {"intValue": "x"}]}}),
            ".value.arrayValue.values[1].intValue",
            "integer",
            id="in an array",
        ),
        pytest.param(with_value({"arrayValue": {"values": 1}}), ".value.arrayValue.values", "expected a list", id="array without list"),
        pytest.param(
            with_value(KVLIST_WITH_TEXT_FOR_A_DOUBLE), ".kvlistValue.values[0].value.doubleValue", "a number", id="in a key-value list"
        ),
        pytest.param({"events": [{"name": 1}]}, ".events[0].name", "expected text", id="in an event"),
        pytest.param({"events": 1}, ".events", "expected a list", id="events as number"),
    ],
)
def test_a_wrong_type_is_refused_with_its_path_and_without_its_value(fields: dict[str, object], where: str, what: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_traces(request_with(SPAN, {**SPAN, **fields}), KEEP)
    (problem,) = refused.value.problems
    assert problem.where.startswith("resourceSpans[0].scopeSpans[0].spans[1].")
    assert problem.where.endswith(where)
    assert what in problem.what
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("body", "where", "what"),
    [
        pytest.param(b"", "line 1 column 1", "not JSON: it ends early", id="nothing"),
        pytest.param(b'{"resourceSpans": [\n', "line 2 column 1", "not JSON: it ends early", id="cut in a list"),
        pytest.param(b'{"resourceSpans": "abc', "line 1 column 19", "not JSON: it ends early", id="cut in text"),
        pytest.param(b'{\n"resourceSpans": [}', "line 2 column 19", "not JSON", id="broken"),
        pytest.param(b"[]", "request", "expected an object, found a list", id="list"),
        pytest.param(b'"x"', "request", "expected an object, found text", id="text"),
        pytest.param(b"5", "request", "expected an object, found a number", id="number"),
        pytest.param(b'{"resourceSpans": {}}', "resourceSpans", "expected a list, found an object", id="object for a list"),
        pytest.param(b'{"resourceSpans": [1]}', "resourceSpans[0]", "expected an object", id="number for a block"),
        pytest.param(
            b'{"resourceSpans": [{"scopeSpans": [1]}]}', "resourceSpans[0].scopeSpans[0]", "expected an object", id="number for a scope"
        ),
        pytest.param(
            b'{"resourceSpans": [{"scopeSpans": [{"spans": 1}]}]}',
            "resourceSpans[0].scopeSpans[0].spans",
            "expected a list",
            id="number for spans",
        ),
        pytest.param(
            b'{"resourceSpans": [{"resource": {"attributes": 1}}]}',
            "resourceSpans[0].resource.attributes",
            "expected a list",
            id="number for attributes",
        ),
        pytest.param(
            b'{"resourceSpans": [{"scopeSpans": [{"scope": {"name": 1}}]}]}',
            "resourceSpans[0].scopeSpans[0].scope.name",
            "expected text",
            id="number for a scope's name",
        ),
        pytest.param(b'{"resourceLogs": []}', "request", "it is a logs request", id="logs"),
        pytest.param(b'{"resourceMetrics": []}', "request", "it is a metrics request", id="metrics"),
        pytest.param(b'{"resource_spans": []}', "request", "resource_spans", id="snake_case"),
        pytest.param(b"[" * 100_000, "request", "nested too deep", id="lists without end"),
        pytest.param(b'{"a":' * 100_000, "request", "nested too deep", id="objects without end"),
        pytest.param(b"[" + b"9" * 5000 + b"]", "request", "a number is too long", id="endless number"),
    ],
)
def test_what_is_no_request_is_refused_with_place_and_cure(body: bytes, where: str, what: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_traces(body, KEEP)
    (problem,) = refused.value.problems
    assert (problem.where, bool(problem.fix)) == (where, True)
    assert what in problem.what


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"stringValue": "a"}, "a", id="text"),
        pytest.param({"stringValue": ""}, "", id="empty text"),
        pytest.param({"boolValue": False}, False, id="false"),
        pytest.param({"intValue": "-9223372036854775808"}, -(2**63), id="least integer, as text"),
        pytest.param({"intValue": 9223372036854775807}, 2**63 - 1, id="greatest integer, as number"),
        pytest.param({"doubleValue": 1}, 1.0, id="double as integer"),
        pytest.param({"doubleValue": "-1.5e3"}, -1500.0, id="double as text"),
        pytest.param({"doubleValue": "Infinity"}, float("inf"), id="infinity"),
        pytest.param({"doubleValue": 10**400}, float("inf"), id="beyond the largest double"),
        pytest.param({"doubleValue": -(10**400)}, float("-inf"), id="beyond the least double"),
        pytest.param({"bytesValue": "+/8="}, b"\xfb\xff", id="base64"),
        pytest.param({"bytesValue": "-_8"}, b"\xfb\xff", id="base64 for URLs, without padding"),
        pytest.param({"arrayValue": {}}, (), id="empty array"),
        pytest.param({"arrayValue": {"values": [{"intValue": 1}, {}, None]}}, (1, None, None), id="array"),
        pytest.param(
            {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}, {"key": "n"}]}},
            {"k": True, "n": None},
            id="key-value list",
        ),
        pytest.param({}, None, id="nothing"),
        pytest.param(None, None, id="null"),
        pytest.param({"stringValue": None}, None, id="null text"),
        pytest.param({"futureValue": 1}, None, id="a type of the future"),
    ],
)
def test_every_kind_of_value_is_read(value: object, expected: object) -> None:
    found = decode_span(**with_value(value)).attributes["id"]
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"bytesValue": "?"}, id="not base64"),
        pytest.param({"bytesValue": "é"}, id="not even ASCII"),
        pytest.param({"bytesValue": "A"}, id="cut"),
        pytest.param({"doubleValue": True}, id="boolean for a double"),
        pytest.param({"doubleValue": "1_0"}, id="a double that only Python reads"),
        pytest.param({"intValue": "9223372036854775808"}, id="64 bits and a sign"),
    ],
)
def test_a_value_that_its_type_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(DecodeError):
        decode_span(**with_value(value))


def test_not_a_number_is_read_from_text() -> None:
    found = decode_span(**with_value({"doubleValue": "NaN"})).attributes["id"]
    assert found != found  # noqa: PLR0124 - that is how one knows


def nested_json(depth: int, kind: str) -> dict[str, object]:
    value: dict[str, object] = {"intValue": 7}
    for _ in range(depth):
        value = {kind: {"values": [value if kind == "arrayValue" else {"key": "k", "value": value}]}}
    return value


@pytest.mark.parametrize("kind", [pytest.param("arrayValue", id="arrays"), pytest.param("kvlistValue", id="key-value lists")])
def test_a_value_nested_deeper_than_allowed_costs_itself_and_counts_as_dropped(kind: str) -> None:
    span = decode_span(**with_value(nested_json(100, kind)))
    assert span.dropped_attributes == 0
    assert "id" in span.attributes
    span = decode_span(**with_value(nested_json(101, kind)))
    assert (span.attributes, span.dropped_attributes) == ({}, 1)


def test_events_are_kept_by_name_with_all_their_attributes() -> None:
    events = [
        {"name": name, "timeUnixNano": "7", "attributes": [{"key": "anything", "value": {"intValue": 1}}]}
        for name in ("exception", "other")
    ]
    (event,) = decode_span(events=events).events
    assert (event.name, event.time_unix_ns, event.attributes) == ("exception", 7, {"anything": 1})
    assert decode_traces(request_with({**SPAN, "events": events}), Projection()).spans[0].events == ()


def test_a_byte_order_mark_and_bad_utf_8_are_no_reason_to_lose_spans() -> None:
    body = b"\xef\xbb\xbf" + request_with({**SPAN, "name": "?"}).replace(b'"?"', b'"\xff"')
    (span,) = decode_traces(body, KEEP).spans
    assert span.name == "\ufffd"


def test_a_parsed_document_decodes_like_its_text() -> None:
    body = request_with(SPAN)
    assert decode_document(parse_json(body), KEEP) == decode_traces(body, KEEP)
