"""The table of odd and hostile requests over HTTP, each sent byte by byte, and after each a healthy client is served."""

from __future__ import annotations

import http.client
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.receivers.http import connection as module
from tests.patience import PATIENCE_SECONDS, with_a_limit
from tests.receivers.hostile.http_rows import SECRET, rows
from tests.receivers.hostile.rows import GOOD, HEALTHY, Row
from tests.receivers.receivers import Intake, http_receiver, post, running
from tests.receivers.test_answers import response_of, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 1 << 20


@pytest.fixture(autouse=True)
def short_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an early answer, connections stay open for half a second instead of five, for which each such row would wait."""
    monkeypatch.setattr(module, "_LINGER_SECONDS", 0.5)


@pytest.fixture(scope="module")
def patient() -> Iterator[tuple[Intake, int]]:
    intake = Intake()
    with running(http_receiver(intake, max_message_bytes=LIMIT)) as port:
        yield intake, port


def answer(connection: socket.socket, method: str | None = None) -> http.client.HTTPResponse | None:
    """Return the next answer, its body read; None if the connection is closed instead."""
    response = http.client.HTTPResponse(connection, method=method)
    try:
        response.begin()
    except (http.client.RemoteDisconnected, ConnectionError):
        return None
    return response


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in rows()])
def test_the_right_answer(patient: tuple[Intake, int], row: Row, caplog: pytest.LogCaptureFixture) -> None:
    if not row.slow:
        hold(*patient, row, caplog)
        return

    def hold_within(seconds: float) -> None:
        intake = Intake()
        with running(http_receiver(intake, max_message_bytes=LIMIT, head_seconds=seconds, body_seconds=seconds)) as port:
            hold(intake, port, row, caplog)

    with_a_limit(hold_within)


def hold(intake: Intake, port: int, row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """Send a row's request, and hold its answer and what comes after it."""
    caplog.clear()
    intake.decoded.clear()
    intake.refusals.clear()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        with suppress(ConnectionError):  # the answer may come before all is sent
            connection.sendall(row.sent)
        response = answer(connection, "HEAD" if row.sent.startswith(b"HEAD") else None)
        body = b"" if response is None else response.read()
        assert (None if response is None else response.status) == row.status
        assert len(intake.names) == row.spans
        assert [reason for _, reason in intake.refusals][:1] == ([] if row.refused is None else [row.refused])
        if response is not None:
            assert response.getheader("Content-Type") == row.answer
            assert response.getheader("Server") == "otel-toolcall-eval"
            if row.status == 200:
                assert not response_of(body, row.answer).HasField("partial_success")
            elif not row.sent.startswith(b"HEAD"):
                assert status_of(body, row.answer).message
        if row.goes_on or response is None:
            assert (response is not None) is row.goes_on
            if row.goes_on:
                connection.sendall(HEALTHY)
                again = answer(connection)
                assert again is not None
                assert again.status == 200
        else:
            assert closed(connection)
    for said in (str(response and response.getheaders()).encode(), body, caplog.text.encode()):
        assert SECRET not in said
    assert caplog.text == ""
    assert post(port, GOOD).status == 200  # the next client


def closed(connection: socket.socket) -> bool:
    """Tell whether the server closes, maybe after another refusal."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    return True
