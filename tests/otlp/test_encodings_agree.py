from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.protobuf.json_format import Parse
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.otlp import json_traces, protobuf_traces
from tests.otlp.otlp_requests import KEEP, attribute, expected_spans, nested, numbered, request_of, requests, to_json, varint, without_sizes

if TYPE_CHECKING:
    import random

CORPUS = Path(__file__).parents[1] / "golden" / "corpus"
FEWER = settings(max_examples=50)  # a request takes some milliseconds to draw


@FEWER
@given(request=requests(), projection=st.sampled_from([KEEP, Projection(), Projection(keys=frozenset({"id"}))]))
def test_both_encodings_of_a_request_decode_equal_and_as_the_generated_classes_do(
    request: ExportTraceServiceRequest, projection: Projection
) -> None:
    from_protobuf = protobuf_traces.decode_traces(request.SerializeToString(), projection)
    assert json_traces.decode_traces(to_json(request), projection) == from_protobuf
    assert without_sizes(from_protobuf) == expected_spans(request, projection)
    assert from_protobuf.received == sum(len(group.spans) for block in request.resource_spans for group in block.scope_spans)
    assert from_protobuf.received == len(from_protobuf.spans) + from_protobuf.rejected
    assert bool(from_protobuf.reasons) == bool(from_protobuf.rejected)


@FEWER
@given(request=requests(), seed=st.randoms(use_true_random=False))
def test_fields_in_any_order_and_unknown_fields_change_nothing(request: ExportTraceServiceRequest, seed: random.Random) -> None:
    shuffled = scrambled(request, seed)
    assert ExportTraceServiceRequest.FromString(shuffled) is not None
    assert protobuf_traces.decode_traces(shuffled, KEEP) == protobuf_traces.decode_traces(request.SerializeToString(), KEEP)


@FEWER
@given(request=requests(), data=st.data())
def test_a_request_cut_at_any_byte_decodes_or_is_a_decode_error(request: ExportTraceServiceRequest, data: st.DataObject) -> None:
    body = request.SerializeToString()
    cut = body[: data.draw(st.integers(0, len(body)))]
    try:
        decoded = protobuf_traces.decode_traces(cut, KEEP)
    except DecodeError:
        pass
    else:
        assert decoded.received == len(decoded.spans) + decoded.rejected
    text = to_json(request)
    with pytest.raises(DecodeError, match="not JSON"):
        json_traces.decode_traces(text[: data.draw(st.integers(0, len(text) - 1))], KEEP)


@FEWER
@given(request=requests(), data=st.data())
def test_a_request_with_any_byte_changed_decodes_or_is_a_decode_error(request: ExportTraceServiceRequest, data: st.DataObject) -> None:
    for body, decode in ((request.SerializeToString(), protobuf_traces.decode_traces), (to_json(request), json_traces.decode_traces)):
        if not body:
            continue
        damaged = bytearray(body)
        damaged[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        try:
            decoded = decode(bytes(damaged), KEEP)
        except DecodeError:
            continue
        assert decoded.received == len(decoded.spans) + decoded.rejected


@given(body=st.binary(max_size=60))
def test_any_bytes_decode_or_are_a_decode_error(body: bytes) -> None:
    for decode in (protobuf_traces.decode_traces, json_traces.decode_traces):
        try:
            decoded = decode(body, KEEP)
        except DecodeError:
            continue
        assert decoded.received == len(decoded.spans) + decoded.rejected


@pytest.mark.parametrize("kvlist", [pytest.param(False, id="arrays"), pytest.param(True, id="key-value lists")])
def test_a_value_as_deep_as_allowed_is_equal_in_both_encodings(kvlist: bool) -> None:  # noqa: FBT001 - a parameter of the table
    request = request_of(numbered(1))
    request.resource_spans[0].scope_spans[0].spans[0].attributes.append(attribute("id", nested(20, kvlist=kvlist)))
    from_protobuf = protobuf_traces.decode_traces(request.SerializeToString(), KEEP)
    assert json_traces.decode_traces(to_json(request), KEEP) == from_protobuf
    assert without_sizes(from_protobuf) == expected_spans(request, KEEP)


def recordings() -> list[Path]:
    return sorted(CORPUS.rglob("*.otlp.jsonl.gz"))


@pytest.mark.parametrize("path", [pytest.param(path, id=f"{path.parent.name}/{path.name}") for path in recordings()[::7]])
def test_recordings_of_real_frameworks_decode_equal_in_both_encodings(path: Path) -> None:
    projection = Projection(prefixes=("",), event_names=frozenset({"exception", "gen_ai.choice"}))
    for line in gzip.decompress(path.read_bytes()).splitlines():
        decoded = json_traces.decode_traces(line, projection)
        assert decoded.received > 0
        assert decoded.rejected == 0
        assert protobuf_traces.decode_traces(in_protobuf(line), projection) == decoded


def test_there_are_recordings() -> None:
    assert len(recordings()) > 50


def in_protobuf(line: bytes) -> bytes:
    """Write an OTLP/JSON request in protobuf, through the generated classes."""

    def in_base64(found: re.Match[bytes]) -> bytes:
        return found[1] + base64.b64encode(bytes.fromhex(found[2].decode())) + b'"'

    json_of_protobuf = re.sub(rb'("(?:traceId|spanId|parentSpanId)"\s*:\s*")([0-9a-fA-F]*)"', in_base64, line)
    return Parse(json_of_protobuf, ExportTraceServiceRequest(), ignore_unknown_fields=True).SerializeToString()


def scrambled(message: Message, seed: random.Random) -> bytes:
    """Encode a message with its fields in another order, and a field that nobody knows."""
    parts = [varint(900 << 3 | 2) + varint(3) + b"new"]
    for descriptor, value in message.ListFields():
        repeated = not isinstance(value, (bool, int, float, str, bytes, Message))
        pieces = []
        for each in value if repeated else [value]:
            if descriptor.message_type is None:
                alone = type(message)()
                if repeated:
                    getattr(alone, descriptor.name).append(each)
                else:
                    setattr(alone, descriptor.name, each)
                pieces.append(alone.SerializeToString())
            else:
                inner = scrambled(each, seed)
                pieces.append(varint(descriptor.number << 3 | 2) + varint(len(inner)) + inner)
        parts.append(b"".join(pieces))  # the order of one repeated field means something
    seed.shuffle(parts)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("target", "linked"), [pytest.param(b"\2" * 16, True, id="another-trace"), pytest.param(b"\1" * 16, False, id="own")]
)
def test_a_link_to_another_trace_is_noticed_in_both_encodings(target: bytes, linked: bool) -> None:  # noqa: FBT001 - a column
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\1" * 16, span_id=b"\1" * 8)
    span.start_time_unix_nano = span.end_time_unix_nano = 1
    span.links.add(trace_id=target, span_id=b"\3" * 8)
    document = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "01" * 16,
                                "spanId": "01" * 8,
                                "startTimeUnixNano": 1,
                                "endTimeUnixNano": 1,
                                "links": [{"traceId": target.hex(), "spanId": "03" * 8}],
                            }
                        ]
                    }
                ]
            }
        ]
    }
    for decoded in (
        protobuf_traces.decode_traces(request.SerializeToString(), Projection()),
        json_traces.decode_traces(json.dumps(document).encode(), Projection()),
    ):
        assert [span.linked for span in decoded.spans] == [linked]
