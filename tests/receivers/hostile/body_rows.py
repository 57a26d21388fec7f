"""Bodies of trace requests that are odd in themselves, in protobuf and in JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.fuzz.rewriting import fixed64, number_field
from tests.otlp.otlp_requests import START_NS, field, nested_bytes, varint
from tests.receivers.hostile.rows import GOOD, GOOD_JSON, Body

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_NS = (1 << 64) - 1
TRACE, SPAN = b"\x11" * 16, b"\x22" * 8
BARE = field(1, TRACE) + field(2, SPAN) + fixed64(7, START_NS) + fixed64(8, START_NS + 5)
GROUP = b"\xfb\x06" + number_field(1, 5) + b"\xfc\x06"  # field 111, begins and ends


def rows() -> Iterator[Body]:
    """Yield all of them."""
    for group in (protobuf_framing, protobuf_spans, protobuf_values, json_texts, json_shapes, json_spans, json_values):
        yield from group()


# --- protobuf ---------------------------------------------------------------------------------------------------------------------------


def with_span(*parts: bytes) -> bytes:
    return field(1, field(2, field(2, b"".join(parts))))


def with_value(value: bytes) -> bytes:
    return with_span(BARE, field(9, field(1, b"tool.name") + field(2, value)))


def protobuf_framing() -> Iterator[Body]:
    yield Body(id="protobuf: empty", body=b"")
    for at in range(1, len(GOOD)):
        yield Body(id=f"protobuf: cut at byte {at}", body=GOOD[:at], status=400)
    for name, body in {
        "zeros": bytes(20),
        "field 0": b"\x02\x01a" + GOOD,
        "a group that does not end": b"\xfb\x06",
        "a group that does not begin": b"\xfc\x06",
        "groups without end": b"\xfb\x06" * 5000,
        "wire type 6": b"\x0e" + GOOD,
        "wire type 7": b"\x0f" + GOOD,
        "a length beyond the end": b"\x0a\xff\xff\xff\xff\x07abc",
        "a length beyond 64 bits": b"\x0a" + b"\xff" * 10 + b"abc",
        "a varint without end": b"\x08" + b"\xff" * 20,
        "text": b"hello, this is no protobuf",
        "HTML": b"<html><body>502 Bad Gateway</body></html>",
        "JSON": GOOD_JSON,
        "a log line": b"2026-01-01 INFO secret\n",
    }.items():
        yield Body(id=f"protobuf: {name}", body=body, status=400)
    for name, body, spans in (
        ("unknown fields", number_field(99, 5) + GOOD + field(100, b"x"), 1),
        ("a group of the unknown", GOOD + GROUP, 1),
        ("the request twice", GOOD + GOOD, 2),
        ("an overlong length", b"\x0a" + bytes([0x80 | GOOD[1], 0x80, 0x00]) + GOOD[2:], 1),
        ("the field with the wrong wire type", number_field(1, 5), 0),
        ("blocks without spans", field(1, b"") * 1000 + GOOD, 1),
        ("scopes without spans", field(1, field(2, b"") * 1000) + GOOD, 1),
        ("a schema URL", GOOD + field(1, field(3, b"https://example.com")), 1),
    ):
        yield Body(id=f"protobuf: {name}", body=body, spans=spans)
    log, metric = ExportLogsServiceRequest(), ExportMetricsServiceRequest()
    log.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=5, trace_id=TRACE, span_id=SPAN).body.string_value = "secret"
    point = metric.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points.add(time_unix_nano=5, as_int=1)
    point.attributes.add(key="a").value.string_value = "secret"
    # Their framing is that of traces; what stands in place of spans has no IDs where spans have theirs.
    yield Body(id="protobuf: a logs request", body=log.SerializeToString(), rejected=1)
    yield Body(id="protobuf: a metrics request", body=metric.SerializeToString(), rejected=1)


def protobuf_spans() -> Iterator[Body]:
    yield Body(id="span: bare", body=with_span(BARE), spans=1)
    for name, parts in {
        "no trace ID": field(2, SPAN),
        "trace ID of zeros": field(1, bytes(16)) + field(2, SPAN),
        "trace ID of 15 bytes": field(1, TRACE[:15]) + field(2, SPAN),
        "trace ID of 17 bytes": field(1, TRACE + b"a") + field(2, SPAN),
        "trace ID in hexadecimal": field(1, TRACE.hex().encode()) + field(2, SPAN),
        "trace ID of 1 MiB": field(1, bytes(900_000)) + field(2, SPAN),
        "no span ID": field(1, TRACE),
        "span ID of zeros": field(1, TRACE) + field(2, bytes(8)),
        "span ID of 16 bytes": field(1, TRACE) + field(2, TRACE),
    }.items():
        yield Body(id=f"span: {name}", body=with_span(parts, fixed64(7, START_NS), fixed64(8, START_NS)), rejected=1)
    ids = field(1, TRACE) + field(2, SPAN)
    yield Body(id="span: no times", body=with_span(ids), rejected=1)
    yield Body(id="span: no start", body=with_span(ids, fixed64(8, 5)), rejected=1)
    yield Body(id="span: no end", body=with_span(ids, fixed64(7, 5)), rejected=1)
    yield Body(id="span: times of the wrong wire type", body=with_span(ids, number_field(7, 5), number_field(8, 6)), rejected=1)
    yield Body(id="span: empty, 1000 of them", body=field(1, field(2, field(2, b"") * 1000)), rejected=1000)
    yield Body(id="span: empty, 300,000 of them", body=field(1, field(2, field(2, b"") * 300_000)), rejected=300_000)
    yield Body(id="span: empty, too many of them", body=field(1, field(2, field(2, b"") * 600_000)), status=413)
    yield Body(id="block: empty, too many of them", body=field(1, b"") * 300_000 * 2, status=413)
    yield Body(id="span: good ones among bad", body=field(1, field(2, field(2, b"") + field(2, BARE) + field(2, ids))), spans=1, rejected=2)
    for name, part in {
        "end before start": fixed64(7, START_NS) + fixed64(8, 1),
        "times at their limit": fixed64(7, MOST_NS) + fixed64(8, MOST_NS),
        "times in 1970": fixed64(7, 1) + fixed64(8, 2),
        "kind out of range": number_field(6, 99),
        "negative kind": number_field(6, -1),
        "status out of range": field(15, number_field(3, 77)),
        "parent of the wrong length": field(4, b"abc"),
        "itself for a parent": field(4, SPAN),
        "fields twice": field(1, bytes(16)) + BARE,
        "a name that is not UTF-8": field(5, b"\xff\xfe\xc3\x28"),
        "a name with zeros": field(5, b"a\0b"),
        "a name of 500 KB": field(5, b"x" * 500_000),
        "flags of all ones": varint(16 << 3 | 5) + b"\xff" * 4,
        "flags of the wrong wire type": number_field(16, 5),
        "dropped counts at their limit": number_field(10, (1 << 32) - 1),
        "a link to nothing": field(13, b""),
        "an event without a name": field(11, b""),
        "unknown fields": field(1000, b"x") + GROUP,
        "a trace state that is none": field(3, b"\xff;;;=,"),
    }.items():
        yield Body(id=f"span: {name}", body=with_span(BARE, part), spans=1)
    for name, part in {
        "a status that is none": field(15, b"\xff"),
        "an attribute that is none": field(9, b"\x0a\x09tool.name\x12\x05a"),
        "an attribute in a group": field(9, field(1, b"tool.name") + b"\x13\x14"),
    }.items():
        yield Body(id=f"span: {name}", body=with_span(BARE, part), status=400)
    yield Body(id="resource: that is none", body=field(1, field(1, b"\x0a\xff") + field(2, field(2, BARE))), status=400)


def protobuf_values() -> Iterator[Body]:
    for name, value in {
        "empty": b"",
        "not UTF-8": field(1, b"\xff\xc3"),
        "several kinds": field(1, b"a") + number_field(3, 5) + number_field(2, 1),
        "an unknown kind": field(20, b"x"),
        "an overlong number": b"\x18" + b"\x80" * 9 + b"\x00",
        "the smallest number": number_field(3, -(1 << 63)),
        "a boolean of 7": number_field(2, 7),
        "nested 100 deep": nested_bytes(100),
        "nested 101 deep": nested_bytes(101),  # left out
        "nested 20,000 deep": nested_bytes(20_000),
        "key-value lists with equal keys": field(6, field(1, field(1, b"k") + field(2, field(1, b"a"))) * 50),
        "100,000 members": field(5, field(1, b"") * 100_000),
    }.items():
        yield Body(id=f"value: {name}", body=with_value(value), spans=1)
    for name, broken in {
        "cut": b"\x0a\x05a",
        "a varint without end": b"\x18" + b"\xff" * 11,
        "a double of 7 bytes": b"\x21" + bytes(7),
    }.items():
        yield Body(id=f"value: {name}", body=with_value(broken), status=400)
    attribute = field(9, field(1, b"tool.name") + field(2, field(5, field(1, b"") * 260_000)))
    yield Body(id="value: too many members in one request", body=with_span(BARE, attribute * 4), status=413)


# --- JSON -------------------------------------------------------------------------------------------------------------------------------


def document(text: str) -> bytes:
    """Return a request with one span, written as ``text``."""
    return b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + text.encode("utf-8", "surrogatepass") + b"]}]}]}"


FIELDS = {"traceId": '"%s"' % TRACE.hex(), "spanId": '"%s"' % SPAN.hex(), "startTimeUnixNano": '"5"', "endTimeUnixNano": '"6"'}  # noqa: UP031 - plainer


def span(**fields: str | None) -> bytes:
    """Return a request whose span has these fields, written as they are; None leaves one out."""
    found = {**FIELDS, **fields}
    return document("{" + ",".join(f'"{name}":{text}' for name, text in found.items() if text is not None) + "}")


def value(text: str) -> bytes:
    """Return a request whose span has one attribute with this value."""
    return span(attributes='[{"key":"tool.name","value":%s}]' % text)  # noqa: UP031 - braces


def json_texts() -> Iterator[Body]:
    for name, body in {
        "empty": b"",
        "blank": b" \n\t",
        "cut": GOOD_JSON[:-1],
        "half": GOOD_JSON[: len(GOOD_JSON) // 2],
        "one brace too many": GOOD_JSON + b"}",
        "two documents": GOOD_JSON + GOOD_JSON,
        "one document a line": GOOD_JSON + b"\n" + GOOD_JSON,
        "a comma behind the last": b'{"resourceSpans":[],}',
        "a comment": b'{"resourceSpans":[] /* none */}',
        "single quotes": b"{'resourceSpans':[]}",
        "no quotes": b"{resourceSpans:[]}",
        "UTF-16": GOOD_JSON.decode().encode("utf-16"),
        "UTF-32": GOOD_JSON.decode().encode("utf-32"),
        "two byte order marks": b"\xef\xbb\xbf" * 2 + GOOD_JSON,
        "a list": b"[]",
        "text": b'"resourceSpans"',
        "a number": b"5",
        "true": b"true",
        "NaN": b"NaN",
        "protobuf": GOOD,
        "HTML": b"<html>502</html>",
        "a raw line end in text": b'{"a":"b\nc"}',
        "a wrong escape": b'{"a":"\\x41"}',
        "lists nested 100,000 deep": b"[" * 100_000,
        "objects nested 50,000 deep": b'{"a":' * 50_000,
        "lists nested and closed": b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}",
        "a number of 5,000 digits": b'{"a":' + b"9" * 5000 + b"}",
        "zeros": bytes(50),
    }.items():
        yield Body(id=f"JSON: {name}", body=body, status=400, json=True)
    yield Body(id="JSON: byte order mark", body=b"\xef\xbb\xbf" + GOOD_JSON, spans=1, json=True)
    yield Body(id="JSON: blanks around", body=b" \r\n\t" + GOOD_JSON + b"\n\n", spans=1, json=True)
    yield Body(id="JSON: null", body=b"null", json=True)
    yield Body(id="JSON: no fields", body=b"{}", json=True)
    yield Body(id="JSON: not UTF-8", body=span(name='"a"').replace(b'"a"', b'"\xff\xc3"'), spans=1, json=True)
    yield Body(id="JSON: half of a surrogate pair", body=span(name='"\\ud800"'), spans=1, json=True)
    yield Body(id="JSON: half of a surrogate pair in UTF-8", body=span(name='"\ud800"'), spans=1, json=True)
    yield Body(id="JSON: too many elements", body=b'{"a":[' + b"{}," * 2_100_000 + b"{}]}", status=413, json=True)


def json_shapes() -> Iterator[Body]:
    for name, text in {
        "null for the blocks": '{"resourceSpans":null}',
        "null for a block": '{"resourceSpans":[null]}',
        "null for the scopes": '{"resourceSpans":[{"scopeSpans":null}]}',
        "null for a scope": '{"resourceSpans":[{"scopeSpans":[null,{"scope":null,"spans":null}]}]}',
        "null for the resource": '{"resourceSpans":[{"resource":null,"scopeSpans":[]}]}',
        "unknown fields": '{"x":[{"y":1e999}],"resourceSpans":[{"x":{}}]}',
        "another case": '{"ResourceSpans":[{"scopeSpans":5}]}',
        "a key twice": '{"resourceSpans":5,"resourceSpans":[]}',
    }.items():
        yield Body(id=f"shape: {name}", body=text.encode(), json=True)
    for name, text in {
        "an object for the blocks": '{"resourceSpans":{}}',
        "text for a block": '{"resourceSpans":["secret"]}',
        "a number for the scopes": '{"resourceSpans":[{"scopeSpans":5}]}',
        "a list for the resource": '{"resourceSpans":[{"resource":[]}]}',
        "text for the spans": '{"resourceSpans":[{"scopeSpans":[{"spans":"secret"}]}]}',
        "a list for a span": '{"resourceSpans":[{"scopeSpans":[{"spans":[[]]}]}]}',
        "snake case": '{"resource_spans":[]}',
        "a logs request": '{"resourceLogs":[]}',
        "a metrics request": '{"resourceMetrics":[]}',
    }.items():
        yield Body(id=f"shape: {name}", body=text.encode(), status=400, json=True)
    yield Body(
        id="shape: snake case inside", body=b'{"resourceSpans":[{"scope_spans":[{"spans":[{}]}]}]}', json=True
    )  # unknown, so ignored


def json_spans() -> Iterator[Body]:
    good: dict[str, dict[str, str]] = {
        "as it should be": {},
        "IDs in capitals": {"traceId": json.dumps("AB" * 16), "spanId": json.dumps("CD" * 8)},
        "times as numbers": {"startTimeUnixNano": "1764000000000000001", "endTimeUnixNano": "1764000000000000002"},
        "times with a fraction of nothing": {"startTimeUnixNano": "5.0", "endTimeUnixNano": "6e3"},
        "times at their limit": {"startTimeUnixNano": f'"{MOST_NS}"', "endTimeUnixNano": str(MOST_NS)},
        "end before start": {"endTimeUnixNano": "1"},
        "zeros in front of a time": {"startTimeUnixNano": '"0005"'},
        "kind by name": {"kind": '"SPAN_KIND_SERVER"'},
        "kind by an unknown name": {"kind": '"SPAN_KIND_SECRET"'},
        "kind out of range": {"kind": "99"},
        "status by name": {"status": '{"code":"STATUS_CODE_ERROR"}'},
        "status null": {"status": "null"},
        "flags at their limit": {"flags": "4294967295"},
        "parent empty": {"parentSpanId": '""'},
        "parent null": {"parentSpanId": "null"},
        "parent in base64": {"parentSpanId": '"IiIiIiIiIiI="'},
        "name null": {"name": "null"},
        "attributes null": {"attributes": "null"},
        "an attribute null": {"attributes": "[null]"},
        "events and links null": {"events": "null", "links": "null"},
        "a name of 500 KB": {"name": json.dumps("x" * 500_000)},
        "snake case": {"parent_span_id": "5", "start_time_unix_nano": "[]"},
        "unknown fields": {"x": '{"a":[1e400,-1e400,null]}'},
    }
    for name, fields in good.items():
        yield Body(id=f"JSON span: {name}", body=span(**fields), spans=1, json=True)
    bad: dict[str, dict[str, str | None]] = {
        "trace ID in base64": {"traceId": '"EREREREREREREREREREREQ=="'},
        "trace ID with hyphens": {"traceId": '"11111111-1111-1111-1111-111111111111"'},
        "trace ID with blanks": {"traceId": json.dumps(" ".join(["11"] * 16))},
        "trace ID with 0x": {"traceId": json.dumps("0x" + "11" * 15)},
        "trace ID of other digits": {"traceId": json.dumps("\uff11" * 32)},
        "trace ID null": {"traceId": "null"},
        "trace ID of zeros": {"traceId": json.dumps("0" * 32)},
        "span ID missing": {"spanId": None},
        "span ID too long": {"spanId": json.dumps("1" * 32)},
        "no start": {"startTimeUnixNano": None},
        "end null": {"endTimeUnixNano": "null"},
        "start 0": {"startTimeUnixNano": "0"},
    }
    for name, faults in bad.items():
        yield Body(id=f"JSON span: {name}", body=span(**faults), rejected=1, json=True)
    worse: dict[str, dict[str, str]] = {
        "trace ID a number": {"traceId": "5"},
        "trace ID a list": {"traceId": "[1,2]"},
        "start negative": {"startTimeUnixNano": "-5"},
        "start beyond 64 bits": {"startTimeUnixNano": '"18446744073709551616"'},
        "start a fraction": {"startTimeUnixNano": "5.5"},
        "start an exponent in text": {"startTimeUnixNano": '"1e3"'},
        "start a boolean": {"startTimeUnixNano": "true"},
        "start NaN": {"startTimeUnixNano": "NaN"},
        "start infinite": {"startTimeUnixNano": "1e400"},
        "start a date": {"startTimeUnixNano": '"2026-01-01T00:00:00Z"'},
        "start blank": {"startTimeUnixNano": '" 5"'},
        "start of other digits": {"startTimeUnixNano": json.dumps("\uff15")},
        "name a number": {"name": "5"},
        "kind a list": {"kind": "[]"},
        "kind beyond 32 bits": {"kind": "4294967296"},
        "status text": {"status": '"secret"'},
        "attributes an object": {"attributes": '{"secret":1}'},
        "attributes of text": {"attributes": '["secret"]'},
        "a key that is a number": {"attributes": '[{"key":5}]'},
        "flags negative": {"flags": "-1"},
        "links text": {"links": '"secret"'},
    }
    for name, wrong in worse.items():
        yield Body(id=f"JSON span: {name}", body=span(**wrong), status=400, json=True)


def json_values() -> Iterator[Body]:
    deep = '{"arrayValue":{"values":[' * 150 + '{"intValue":1}' + "]}}" * 150
    for name, text in {
        "none": "{}",
        "null": "null",
        "of an unknown kind": '{"secretValue":5}',
        "null of a kind": '{"stringValue":null,"intValue":null}',
        "several kinds": '{"stringValue":"a","intValue":5}',
        "number in text": '{"intValue":"-9223372036854775808"}',
        "number as a number": '{"intValue":9223372036854775807}',
        "number as a float": '{"intValue":5e3}',
        "NaN in text": '{"doubleValue":"NaN"}',
        "NaN bare": '{"doubleValue":NaN}',
        "infinity": '{"doubleValue":"-Infinity"}',
        "too large for a double": '{"doubleValue":1e999}',
        "a double of 400 digits": '{"doubleValue":%s}' % ("9" * 400),
        "base64": '{"bytesValue":"_-8="}',
        "base64 without padding": '{"bytesValue":"_-8"}',
        "an empty list": '{"arrayValue":{}}',
        "a list with nulls": '{"arrayValue":{"values":[null,{}]}}',
        "equal keys": '{"kvlistValue":{"values":[{"key":"k"},{"key":"k","value":{"intValue":1}}]}}',
        "nested too deep": deep,  # left out
    }.items():
        yield Body(id=f"JSON value: {name}", body=value(text), spans=1, json=True)
    for name, text in {
        "text": '"secret"',
        "a number": "5",
        "a list": "[]",
        "text of another type": '{"stringValue":5}',
        "a boolean in text": '{"boolValue":"true"}',
        "a number beyond 64 bits": '{"intValue":"9223372036854775808"}',
        "a number with a fraction": '{"intValue":5.5}',
        "a double in words": '{"doubleValue":"five"}',
        "no base64": '{"bytesValue":"**"}',
        "a list of text": '{"arrayValue":{"values":["secret"]}}',
        "a list as a list": '{"arrayValue":[]}',
    }.items():
        yield Body(id=f"JSON value: {name}", body=value(text), status=400, json=True)
