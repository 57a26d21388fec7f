from __future__ import annotations

import pytest

from otel_toolcall_eval.model.errors import DecodeError, TooLargeError
from otel_toolcall_eval.otlp.limits import Limits
from otel_toolcall_eval.otlp.metrics_check import check_metrics
from otel_toolcall_eval.otlp.replies import Encoding
from tests.otlp.test_transcoding import everything_in_metrics, written


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        pytest.param(everything_in_metrics().SerializeToString(), Encoding.PROTOBUF, id="protobuf"),
        pytest.param(written(everything_in_metrics(), names=True), Encoding.JSON, id="JSON"),
        pytest.param(b"", Encoding.PROTOBUF, id="empty"),
        pytest.param(b"{}", Encoding.JSON, id="empty JSON"),
        pytest.param(b"\x12\x01x", Encoding.PROTOBUF, id="unknown fields"),
        pytest.param(b'{"new": 1}', Encoding.JSON, id="unknown JSON fields"),
    ],
)
def test_metrics_pass(body: bytes, encoding: Encoding) -> None:
    check_metrics(body, encoding)


@pytest.mark.parametrize(
    ("body", "encoding", "said"),
    [
        pytest.param(b'{"resourceMetrics": []}', Encoding.PROTOBUF, "not a metrics request in protobuf", id="JSON as protobuf"),
        pytest.param(b"\x0a\x02\xff\xff", Encoding.PROTOBUF, "not a metrics request in protobuf", id="garbage inside"),
        pytest.param(b"[]", Encoding.JSON, "expected an object", id="a list"),
        pytest.param(b'{"resourceMetrics": {}}', Encoding.JSON, "resourceMetrics: expected a list", id="no list"),
        pytest.param(b'{"resourceSpans": []}', Encoding.JSON, "it has no resourceMetrics", id="another signal"),
        pytest.param(b"{", Encoding.JSON, "it ends early", id="cut"),
    ],
)
def test_what_is_no_metrics_request_is_refused(body: bytes, encoding: Encoding, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        check_metrics(body, encoding)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        pytest.param(b"\x0a\x00" * 20, Encoding.PROTOBUF, id="blocks"),
        pytest.param(b"\x0a\x28" + b"\x12\x00" * 20, Encoding.PROTOBUF, id="blocks in blocks"),
        pytest.param(b"[" + b"{}," * 20 + b"{}]", Encoding.JSON, id="elements"),
    ],
)
def test_too_much_is_refused(body: bytes, encoding: Encoding) -> None:
    with pytest.raises(TooLargeError):
        check_metrics(body, encoding, limits=Limits(spans=10, elements=10))
