from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.model.trace import SpanEvent
from otel_toolcall_eval.wire.cut_roots import Additions, cut_roots
from otel_toolcall_eval.wire.cut_roots_json import cut_roots_json
from tests.wire.otlp_requests import attribute, numbered, plain_value, request_of, requests, to_json, varint

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_toolcall_eval.wire.cut_roots import CutRoot

UNKNOWN = varint(1000 << 3 | 2) + b"\x03new"
GROUP = varint(1000 << 3 | 3) + varint(1000 << 3 | 4)
VERDICT = Additions(
    attributes={"toolcall_eval.revision": 0, "gen_ai.agent.name": "a", "toolcall_eval.completeness_reasons": ("orphan", "é")},
    events=(SpanEvent(name="gen_ai.evaluation.result", time_unix_ns=2**63, attributes={"score": 0.5, "ok": True, "n": -7}),),
)


def key(trace: int, span: int) -> bytes:
    return trace.to_bytes(16) + span.to_bytes(8)


def parsed(body: bytes) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(body)


def placed(*bodies: bytes) -> list[tuple[bytes, ...]]:
    """Return every span with all that it stands in, unknown fields included, whatever the order."""
    found = []
    for body in bodies:
        for block in parsed(body).resource_spans:
            groups = list(block.scope_spans)
            del block.scope_spans[:]
            for group in groups:
                spans = [span.SerializeToString() for span in group.spans]
                del group.spans[:]
                found += [(block.SerializeToString(), group.SerializeToString(), span) for span in spans]
    return sorted(found)


def strange(request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    """Put a field that nobody knows into everything."""
    request.MergeFromString(UNKNOWN)
    for block in request.resource_spans:
        block.MergeFromString(UNKNOWN)
        block.resource.MergeFromString(UNKNOWN)
        for group in block.scope_spans:
            group.MergeFromString(UNKNOWN)
            for span in group.spans:
                span.MergeFromString(UNKNOWN)
    return request


def keys_of(request: ExportTraceServiceRequest) -> list[bytes]:
    return [
        span.trace_id + span.span_id
        for block in request.resource_spans
        for group in block.scope_spans
        for span in group.spans
        if len(span.trace_id) == 16 and len(span.span_id) == 8
    ]


@given(requests().map(strange), st.data())
def test_nothing_is_lost_or_changed_by_cutting(request: ExportTraceServiceRequest, data: st.DataObject) -> None:
    body, keys = request.SerializeToString(), keys_of(request)
    wanted = set(data.draw(st.lists(st.sampled_from(keys), max_size=4))) if keys else set()
    left, roots = cut_roots(body, wanted)
    assert [root.trace_id + root.span_id for root in roots] == [found for found in keys if found in wanted]
    assert placed(left, *(root.request(None) for root in roots)) == placed(body)
    assert not wanted.intersection(keys_of(parsed(left)))
    assert left.endswith(UNKNOWN)
    if not wanted:
        assert left == body


@given(requests(), st.data())
def test_nothing_is_lost_or_changed_by_cutting_json(request: ExportTraceServiceRequest, data: st.DataObject) -> None:
    document = json.loads(to_json(request))
    document["later"] = [1.10, {"x": None}]
    for block in document["resourceSpans"]:
        block["later"] = 1e3
        for group in block["scopeSpans"]:
            group["later"] = {}
            for span in group["spans"]:
                span["later"] = '\\"]'
    indent = data.draw(st.sampled_from([None, 1]))
    body = json.dumps(document, indent=indent).encode()
    keys = keys_of(request)
    wanted = set(data.draw(st.lists(st.sampled_from(keys), max_size=4))) if keys else set()
    left, roots = cut_roots_json(body, wanted)
    assert [root.trace_id + root.span_id for root in roots] == [found for found in keys if found in wanted]
    assert json_placed(left, *(root.request(None) for root in roots)) == json_placed(body)
    assert json.loads(left)["later"] == document["later"]
    if not wanted:
        assert left == body


def json_placed(*bodies: bytes) -> list[str]:
    found = []
    for body in bodies:
        for block in json.loads(body)["resourceSpans"]:
            for group in block["scopeSpans"]:
                around = [{**block, "scopeSpans": 0}, {**group, "spans": 0}]
                found += [json.dumps([*around, span], sort_keys=True) for span in group["spans"]]
    return sorted(found)


def both(request: ExportTraceServiceRequest, wanted: Collection[bytes]) -> list[tuple[bytes, CutRoot]]:
    """Cut one root in both encodings; what is left, and the root."""
    cut = [cut_roots(request.SerializeToString(), wanted), cut_roots_json(to_json(request), wanted)]
    return [(left, root) for left, (root,) in cut]


def test_blocks_that_are_about_the_root_alone_are_not_sent_twice() -> None:
    root, child = numbered(1), numbered(2, parent_span_id=(1).to_bytes(8))
    request = request_of(root, attributes=[attribute("service.name", "a")])
    for left, cut in both(request, {key(1, 1)}):
        assert left == b""
        assert cut.size_bytes <= len(cut.request(None))
    request.resource_spans[0].scope_spans.add().spans.append(child)
    (left, _), (left_json, _) = both(request, {key(1, 1)})
    assert placed(left) == [found for found in placed(request.SerializeToString()) if b"span 2" in found[2]]
    assert len(json.loads(left_json)["resourceSpans"][0]["scopeSpans"]) == 1


def test_a_verdict_is_added_to_what_the_root_has() -> None:
    root = numbered(1, trace_state="x=y")
    root.attributes.append(attribute("gen_ai.agent.name", "own"))
    root.events.add(name="before", time_unix_nano=5)
    (_, in_protobuf), (_, in_json) = both(request_of(root), {key(1, 1)})
    span = parsed(in_protobuf.request(VERDICT)).resource_spans[0].scope_spans[0].spans[0]
    written = json.loads(in_json.request(VERDICT))["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert {each.key: plain_value(each.value) for each in span.attributes} == {**VERDICT.attributes, "gen_ai.agent.name": "own"}
    assert len(span.attributes) == 3
    assert [(event.name, event.time_unix_nano) for event in span.events] == [("before", 5), ("gen_ai.evaluation.result", 2**63)]
    assert {each.key: plain_value(each.value) for each in span.events[1].attributes} == {"score": 0.5, "ok": True, "n": -7}
    del span.attributes[1:], span.events[1:]
    assert span == root
    assert [each["key"] for each in written["attributes"]] == [
        "gen_ai.agent.name",
        "toolcall_eval.revision",
        "toolcall_eval.completeness_reasons",
    ]
    assert [(event["name"], event["timeUnixNano"]) for event in written["events"]] == [
        ("before", "5"),
        ("gen_ai.evaluation.result", str(2**63)),
    ]


@pytest.mark.parametrize(
    ("span", "lists"),
    [
        pytest.param('{ "events" : null , "attributes": [ ]%s}', ("attributes", "events"), id="null and empty"),
        pytest.param('{"n": 1.10%s}', ("attributes", "events"), id="neither"),
        pytest.param('{"events": [{"name": "]"} ]%s}', ("attributes", "events"), id="a bracket in text"),
    ],
)
def test_a_verdict_fits_into_any_text_and_leaves_the_rest_of_it_alone(span: str, lists: tuple[str, str]) -> None:
    ids = f',"traceId": "{1:032x}", "spanId": "{1:016X}" '
    body = ('{"resourceSpans": [{"scopeSpans": [{"spans": [%s]}]}]}' % (span % ids)).encode()
    _, (root,) = cut_roots_json(body, {key(1, 1)})
    found = json.loads(root.request(VERDICT))["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert [len(found[name]) for name in lists] == [3, 2 if "]" in span[:25] else 1]
    assert ("1.10" in span) == (b"1.10" in root.request(VERDICT))
    nothing = Additions(attributes={}, events=())
    assert root.request(nothing) == root.request(None)


def test_many_roots_share_what_they_stand_in() -> None:
    request = request_of(*(numbered(number) for number in range(1, 6)), attributes=[attribute("k", "v" * 100)])
    wanted = {key(1, number) for number in range(1, 6)}
    for cut in (cut_roots(request.SerializeToString(), wanted), cut_roots_json(to_json(request), wanted)):
        left, roots = cut
        assert (left, len(roots)) == (b"", 5)
        assert all(root.size_bytes > 100 for root in roots)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'\xff{"resourceSpans": []}', id="not UTF-8"),
        pytest.param(
            f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{1:032x}","spanId":"{1:016x}"}}],"spans":[]}}]}}]}}'.encode(),
            id="a key twice",
        ),
        pytest.param(b'\xef\xbb\xbf {"resourceSpans": [null, {"scopeSpans": null}, {"scopeSpans": [ null ]}]} ', id="nothing there"),
        pytest.param(b"null", id="no object"),
    ],
)
def test_odd_json_is_left_whole(body: bytes) -> None:
    assert cut_roots_json(body, {key(1, 1)}) == (body, ())


def test_a_byte_order_mark_changes_nothing() -> None:
    left, (root,) = cut_roots_json(b"\xef\xbb\xbf" + to_json(request_of(numbered(1))), {key(1, 1)})
    assert left == b""
    assert json.loads(root.request(None))


def test_protobuf_with_groups_is_left_whole() -> None:
    body = request_of(numbered(1)).SerializeToString() + GROUP
    assert cut_roots(body, {key(1, 1)}) == (body, ())


def test_a_span_that_names_another_id_later_on_is_left_where_it_is() -> None:
    request = request_of(numbered(1), numbered(2))
    body = request.SerializeToString()
    (span, other) = (found.SerializeToString() for found in request.resource_spans[0].scope_spans[0].spans)
    renamed = span + b"\x12\x08" + (3).to_bytes(8)
    group = b"\x12" + varint(len(renamed)) + renamed + b"\x12" + varint(len(other)) + other
    block = b"\x12" + varint(len(group)) + group
    odd = b"\x0a" + varint(len(block)) + block
    assert keys_of(parsed(odd)) == [key(1, 3), key(1, 2)]
    left, roots = cut_roots(odd, {key(1, 1)})
    assert (left, list(roots)) == (odd, [])
    assert cut_roots(body, set()) == (body, [])
