"""The table of odd and hostile bodies, over HTTP and over gRPC, plain and in gzip: one answer for all, and the next client is served."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.patience import PATIENCE_SECONDS
from tests.receivers.hostile.body_rows import rows
from tests.receivers.hostile.rows import GOOD, JSON, PROTOBUF, Body
from tests.receivers.receivers import TRACES, Intake, ask, grpc_receiver, http_receiver, post, running
from tests.receivers.test_answers import response_of, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 8 << 20
CODES = {400: (3, "INVALID_ARGUMENT"), 413: (8, "RESOURCE_EXHAUSTED")}


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Intake, int, grpc.Channel]]:
    intake = Intake()
    with (
        running(http_receiver(intake, max_message_bytes=LIMIT)) as http_port,
        running(grpc_receiver(intake, max_message_bytes=LIMIT)) as grpc_port,
        grpc.insecure_channel(f"127.0.0.1:{grpc_port}", options=[("grpc.max_send_message_length", -1)]) as channel,
    ):
        yield intake, http_port, channel


@pytest.fixture
def receivers(shared: tuple[Intake, int, grpc.Channel]) -> tuple[Intake, int, grpc.Channel]:
    shared[0].decoded.clear()
    shared[0].refusals.clear()
    return shared


def arrived(intake: Intake, row: Body) -> bool:
    """Tell whether what should arrive did, and what should be refused was."""
    taken = [(len(decoded.spans), decoded.rejected) for decoded in intake.decoded]
    return taken == ([(row.spans, row.rejected)] if row.status == 200 else []) and len(intake.refusals) == (row.status != 200)


@pytest.mark.parametrize("packed", [pytest.param(False, id="plain"), pytest.param(True, id="gzip")])
@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in rows()])
def test_over_http(receivers: tuple[Intake, int, grpc.Channel], row: Body, packed: bool) -> None:  # noqa: FBT001 - a column
    intake, port, _ = receivers
    kind = JSON if row.json else PROTOBUF
    body, headers = (gzip.compress(row.body, 1), {"Content_Encoding": "gzip"}) if packed else (row.body, {})
    reply = post(port, body, kind, **headers)
    assert (reply.status, reply.content_type) == (row.status, kind)
    assert arrived(intake, row)
    if row.status == 200:
        assert response_of(reply.body, kind).partial_success.rejected_spans == row.rejected
    else:
        status = status_of(reply.body, kind)
        assert (status.code, bool(status.message)) == (CODES[row.status][0], True)
    assert b"secret" not in reply.body.lower()
    assert ask(port, "POST", "/v1/traces", GOOD, Content_Type=PROTOBUF).status == 200


@pytest.mark.parametrize("packed", [pytest.param(False, id="plain"), pytest.param(True, id="gzip")])
@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in rows() if not row.json])
def test_over_grpc(receivers: tuple[Intake, int, grpc.Channel], row: Body, packed: bool) -> None:  # noqa: FBT001 - a column
    intake, _, channel = receivers
    export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACES, None, None)
    compression = grpc.Compression.Gzip if packed else grpc.Compression.NoCompression
    try:
        answer = export(row.body, timeout=PATIENCE_SECONDS, compression=compression)
    except grpc.RpcError as error:
        code, details = error.code().name, error.details() or ""
    else:
        code, details = "OK", ""
        assert response_of(answer, PROTOBUF).partial_success.rejected_spans == row.rejected
    assert code == ("OK" if row.status == 200 else CODES[row.status][1])
    assert "secret" not in details
    assert arrived(intake, row)
    assert export(GOOD, timeout=PATIENCE_SECONDS) == b""
