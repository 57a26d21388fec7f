"""Every answer of the receivers, by request: one table over gRPC, HTTP with protobuf and HTTP with JSON."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.json_format import Parse
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from tests.otlp.otlp_requests import attribute, numbered, request_of, to_json
from tests.patience import PATIENCE_SECONDS
from tests.receivers.receivers import JSON, LOGS, METRICS, PROTOBUF, TRACES, Intake, ask, call, grpc_receiver, http_receiver, post, running

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 1 << 20
GOOD = request_of(numbered(1), numbered(2))
MIXED = request_of(numbered(1), numbered(2, trace_id=bytes(16)), numbered(3, end_time_unix_nano=0))
LARGE = request_of(numbered(1), attributes=[attribute("a", "x" * LIMIT)])
REASONS = "1 span without a valid trace_id, 1 span without an end time"
DAMAGED = {PROTOBUF: b"\x0a\x05\x01", JSON: b'{"resourceSpans": ['}


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Intake, int, int]]:
    intake = Intake()
    with (
        running(grpc_receiver(intake, max_message_bytes=LIMIT)) as grpc_port,
        running(http_receiver(intake, max_message_bytes=LIMIT)) as http_port,
    ):
        yield intake, grpc_port, http_port


@pytest.fixture
def receivers(shared: tuple[Intake, int, int]) -> tuple[Intake, int, int]:
    intake = shared[0]
    intake.decoded.clear()
    intake.transports.clear()
    intake.refusals.clear()
    intake.refuse, intake.failure = 0, None
    return shared


def encoded(request: ExportTraceServiceRequest, content_type: str) -> bytes:
    return request.SerializeToString() if content_type == PROTOBUF else to_json(request)


def response_of(body: bytes, content_type: str) -> ExportTraceServiceResponse:
    return ExportTraceServiceResponse.FromString(body) if content_type == PROTOBUF else Parse(body, ExportTraceServiceResponse())


def status_of(body: bytes, content_type: str) -> Status:
    return Status.FromString(body) if content_type == PROTOBUF else Parse(body, Status())


def retry_delay(status: Status) -> int | None:
    for detail in status.details:
        info = RetryInfo()
        detail.Unpack(info)
        return int(info.retry_delay.seconds)
    return None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What a kind of request has to be answered with, and the reason under which it is counted."""

    http_status: int
    grpc_code: str
    number: int
    reason: str
    retry_after: int | None = None


UNDECODABLE = Refusal(http_status=400, grpc_code="INVALID_ARGUMENT", number=3, reason="undecodable")
TOO_LARGE = Refusal(http_status=413, grpc_code="RESOURCE_EXHAUSTED", number=8, reason="too_large")
REFUSED = [
    pytest.param("damaged", UNDECODABLE, id="undecodable"),
    pytest.param("bad gzip", UNDECODABLE, id="bad gzip"),
    pytest.param("bomb", TOO_LARGE, id="bomb"),
    pytest.param("large", TOO_LARGE, id="too large"),
    pytest.param(
        "overload", Refusal(http_status=503, grpc_code="UNAVAILABLE", number=14, reason="overloaded", retry_after=1), id="overload"
    ),
    pytest.param("failure", Refusal(http_status=500, grpc_code="INTERNAL", number=13, reason="internal"), id="a bug of ours"),
]


def prepared(kind: str, content_type: str, intake: Intake) -> tuple[bytes, bool]:
    """Return the body, and whether it is sent as gzip."""
    intake.refuse = 1 if kind == "overload" else 0
    intake.failure = ValueError("secret") if kind == "failure" else None
    good = encoded(GOOD, content_type)
    bodies = {
        "damaged": (DAMAGED[content_type], False),
        "bad gzip": (gzip.compress(good)[:-9], True),
        "bomb": (gzip.compress(bytes(10 * LIMIT)), True),
        "large": (encoded(LARGE, content_type), False),
    }
    return bodies.get(kind, (good, False))


@pytest.mark.parametrize(("kind", "refusal"), REFUSED)
@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_http_refuses_in_the_encoding_of_the_request(
    receivers: tuple[Intake, int, int], content_type: str, kind: str, refusal: Refusal
) -> None:
    intake, _, port = receivers
    body, packed = prepared(kind, content_type, intake)
    reply = post(port, body, content_type, **({"Content_Encoding": "gzip"} if packed else {}))
    status = status_of(reply.body, content_type)
    assert (reply.status, reply.content_type, status.code) == (refusal.http_status, content_type, refusal.number)
    assert status.message
    assert "secret" not in status.message
    assert retry_delay(status) == refusal.retry_after
    assert reply.headers.get("Retry-After") == (None if refusal.retry_after is None else str(refusal.retry_after))
    assert intake.refusals == [("http/protobuf" if content_type == PROTOBUF else "http/json", refusal.reason)]
    assert intake.decoded == []


@pytest.mark.parametrize(("kind", "refusal"), REFUSED)
def test_grpc_refuses_with_status_and_hints(receivers: tuple[Intake, int, int], kind: str, refusal: Refusal) -> None:
    intake, port, _ = receivers
    body, _ = prepared(kind, PROTOBUF, intake)
    ended = call(port, body)  # what begins like gzip is taken for gzip, however it is announced
    assert ended.code == refusal.grpc_code
    assert ended.details
    assert "secret" not in ended.details
    assert intake.decoded == []
    if kind == "large":  # gRPC itself refuses it
        return
    assert intake.refusals == [("grpc", refusal.reason)]
    if kind != "failure":
        status = Status.FromString(ended.trailers["grpc-status-details-bin"])
        assert (status.code, status.message, retry_delay(status)) == (refusal.number, ended.details, refusal.retry_after)
    hint = ended.trailers.get("google.rpc.retryinfo-bin")
    assert (None if hint is None else RetryInfo.FromString(hint).retry_delay.seconds) == refusal.retry_after


def test_a_bomb_that_grpc_packed_is_refused_too(receivers: tuple[Intake, int, int]) -> None:
    intake, port, _ = receivers
    assert call(port, bytes(10 * LIMIT), compression=grpc.Compression.Gzip).code == "RESOURCE_EXHAUSTED"
    assert intake.refusals == [("grpc", "too_large")]


@pytest.mark.parametrize("packed", [pytest.param(False, id="plain"), pytest.param(True, id="gzip")])
@pytest.mark.parametrize("transport", ["grpc", "http/protobuf", "http/json"])
def test_good_and_mixed_batches_are_taken_and_answered(receivers: tuple[Intake, int, int], transport: str, packed: bool) -> None:  # noqa: FBT001 - a column
    intake, grpc_port, http_port = receivers
    content_type = JSON if transport == "http/json" else PROTOBUF
    for request, rejected, reasons in ((GOOD, 0, ""), (MIXED, 2, REASONS)):
        body = encoded(request, content_type)
        if transport == "grpc":
            ended = call(grpc_port, body, compression=grpc.Compression.Gzip if packed else grpc.Compression.NoCompression)
            assert ended.code == "OK"
            answer = ended.body
        else:
            reply = post(
                http_port, gzip.compress(body) if packed else body, content_type, **({"Content_Encoding": "gzip"} if packed else {})
            )
            assert (reply.status, reply.content_type) == (200, content_type)
            answer = reply.body
        response = response_of(answer, content_type)
        assert response.HasField("partial_success") is bool(rejected)
        assert (response.partial_success.rejected_spans, response.partial_success.error_message) == (rejected, reasons)
    assert intake.names == ["span 1", "span 2", "span 1"]
    assert intake.transports == [transport, transport]
    assert [(decoded.received, decoded.rejected) for decoded in intake.decoded] == [(2, 0), (3, 2)]


@pytest.mark.parametrize(
    ("asked", "headers", "status", "allow"),
    [
        pytest.param("POST /v1/trace", {"Content_Type": PROTOBUF}, 404, None, id="unknown path"),
        pytest.param("POST /v1/traces/", {"Content_Type": PROTOBUF}, 404, None, id="slash behind"),
        pytest.param("GET /", {}, 404, None, id="root"),
        pytest.param("GET /../../etc/passwd", {}, 404, None, id="a path that climbs"),
        pytest.param("GET /v1/traces", {"Content_Type": PROTOBUF}, 405, "POST", id="GET for traces"),
        pytest.param("PUT /v1/logs", {"Content_Type": PROTOBUF}, 405, "POST", id="PUT for logs"),
        pytest.param("POST /v1/traces", {}, 415, None, id="no media type"),
        pytest.param("POST /v1/traces", {"Content_Type": "text/plain"}, 415, None, id="text"),
        pytest.param("POST /v1/traces", {"Content_Type": PROTOBUF, "Content_Encoding": "deflate"}, 415, None, id="deflate"),
        pytest.param("POST /v1/traces", {"Content_Type": PROTOBUF, "Content_Encoding": "gzip, gzip"}, 415, None, id="gzip in gzip"),
        pytest.param("POST /v1/traces", {"Content_Type": PROTOBUF, "Expect": "a miracle"}, 417, None, id="unknown expectation"),
    ],
)
def test_http_tells_what_else_is_wrong(
    receivers: tuple[Intake, int, int], asked: str, headers: dict[str, str], status: int, allow: str | None
) -> None:
    intake, _, port = receivers
    method, path = asked.split()
    reply = ask(port, method, path, b"", **headers)
    content_type = PROTOBUF if headers.get("Content_Type") == PROTOBUF else JSON
    assert (reply.status, reply.content_type, reply.headers.get("Allow")) == (status, content_type, allow)
    assert status_of(reply.body, content_type).message
    transport = "http/protobuf" if content_type == PROTOBUF else "http"
    assert intake.refusals == [(transport, "unsupported")]
    assert reply.headers["Server"] == "otel-toolcall-eval"


@pytest.mark.parametrize(
    "content_type",
    [
        pytest.param("application/json; charset=utf-8", id="JSON with charset"),
        pytest.param("Application/JSON", id="JSON in capitals"),
        pytest.param("application/x-protobuf; proto=x", id="protobuf with parameter"),
    ],
)
def test_a_media_type_may_have_parameters_and_capitals(receivers: tuple[Intake, int, int], content_type: str) -> None:
    intake, _, port = receivers
    plain = PROTOBUF if "protobuf" in content_type else JSON
    reply = post(port, encoded(GOOD, plain), content_type, Content_Encoding="identity")
    assert (reply.status, reply.content_type) == (200, plain)
    assert intake.names == ["span 1", "span 2"]


@pytest.mark.parametrize(
    ("path", "method"), [pytest.param("/v1/metrics", METRICS, id="metrics"), pytest.param("/v1/logs", LOGS, id="logs")]
)
def test_other_signals_are_accepted_and_ignored(receivers: tuple[Intake, int, int], path: str, method: str) -> None:
    intake, grpc_port, http_port = receivers
    assert call(grpc_port, b"anything", method).body == b""
    assert post(http_port, b"anything", path=path).body == b""
    assert json.loads(post(http_port, b"{}", JSON, path=path).body) == {}
    assert post(http_port, b"no gzip", path=path, Content_Encoding="gzip").status == 400
    assert intake.decoded == []


@pytest.mark.parametrize(("body", "content_type"), [pytest.param(b"", PROTOBUF, id="protobuf"), pytest.param(b"{}", JSON, id="JSON")])
def test_an_empty_request_is_a_success(receivers: tuple[Intake, int, int], body: bytes, content_type: str) -> None:
    intake, grpc_port, http_port = receivers
    assert post(http_port, body, content_type).status == 200
    assert call(grpc_port, b"").code == "OK"
    assert [decoded.received for decoded in intake.decoded] == [0, 0]


def test_an_unknown_grpc_method_is_unimplemented(receivers: tuple[Intake, int, int]) -> None:
    _, port, _ = receivers
    assert call(port, b"", TRACES + "s").code == "UNIMPLEMENTED"
    assert call(port, b"", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo").code == "UNIMPLEMENTED"


def test_a_body_without_a_declared_length_is_taken(receivers: tuple[Intake, int, int]) -> None:
    import http.client  # noqa: PLC0415 - only here

    intake, _, port = receivers
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    body = GOOD.SerializeToString()
    connection.request("POST", "/v1/traces", body=iter([body[:5], body[5:]]), headers={"Content-Type": PROTOBUF}, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()
    assert intake.names == ["span 1", "span 2"]


def test_a_large_body_is_decoded_like_a_small_one(receivers: tuple[Intake, int, int]) -> None:
    intake, _, port = receivers
    request = request_of(numbered(1), attributes=[attribute("a", "x" * (LIMIT // 2))])
    assert post(port, request.SerializeToString()).status == 200
    assert post(port, to_json(request), JSON).status == 200
    assert intake.names == ["span 1", "span 1"]
