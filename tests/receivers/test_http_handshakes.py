"""TLS handshakes that come to nothing are counted, and told once an episode; what is no failure is neither."""

from __future__ import annotations

import asyncio
import http.client
import socket
from typing import TYPE_CHECKING

import pytest
import trustme

from otel_toolcall_eval.receivers.http.listener import QUIET_SECONDS, Handshakes
from tests.patience import PATIENCE_SECONDS, wait_for, with_a_limit
from tests.receivers.certificates import Client, Files
from tests.receivers.receivers import Intake, http_receiver, running

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(folder=tmp_path)
    made.issue()
    return made


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(record)["reason"] for record in caplog.records if "could not begin TLS" in record.getMessage()]


def refused_handshake(client: Client, port: int) -> None:
    with pytest.raises((OSError, http.client.HTTPException), match=r"SSL|reset|EOF|peer|closed"):
        client.post(port, b"")


def test_a_client_that_can_not_begin_tls_is_counted_and_told_once(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    intake = Intake()
    with running(http_receiver(intake, tls=files.tls())) as port:
        for failures in range(1, 4):
            refused_handshake(Client(trusts=trustme.CA()), port)
            wait_for(lambda failures=failures: len(intake.refusals) == failures)  # type: ignore[misc] # mypy sees no default in it
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_for(lambda: len(intake.refusals) == 4)
        assert Client(trusts=files.ca).post(port, b"").status == 200
    assert intake.refusals == [("http", "tls")] * 4
    assert told(caplog) == ["TLSV1_ALERT_UNKNOWN_CA"]


def test_a_client_without_the_certificate_that_is_asked_for_is_counted(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    files.trust_clients_of(trustme.CA())
    intake = Intake()
    with running(http_receiver(intake, tls=files.tls())) as port:
        refused_handshake(Client(trusts=files.ca), port)
        wait_for(lambda: bool(intake.refusals))
    assert intake.refusals == [("http", "tls")]
    assert told(caplog) == ["PEER_DID_NOT_RETURN_A_CERTIFICATE"]


def test_a_handshake_that_takes_too_long_is_counted_and_a_probe_of_the_port_is_not(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    def hold(seconds: float) -> None:
        caplog.clear()
        intake = Intake()
        with running(http_receiver(intake, tls=files.tls(), head_seconds=seconds)) as port:
            for _ in range(3):
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS).close()
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as slow:
                slow.sendall(b"\x16\x03\x01\x02\x00")
                assert slow.recv(1) == b""
            wait_for(lambda: bool(intake.refusals))
        assert intake.refusals == [("http", "too_slow")]
        assert told(caplog) == ["too slow"]

    with_a_limit(hold)


def test_an_episode_ends_when_none_has_failed_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []

    async def main() -> None:
        loop, now = asyncio.get_running_loop(), 0.0
        loop.time = lambda: now  # type: ignore[method-assign] # a clock that is ours
        handshakes = Handshakes(refused=counted.append, listener="otlp-http", seconds=10)
        for wait in (0.0, QUIET_SECONDS, QUIET_SECONDS, QUIET_SECONDS + 1):
            now += wait
            handshakes.failed(f"at {now:g}")

    asyncio.run(main())
    assert counted == ["tls"] * 4
    assert told(caplog) == ["at 0", f"at {3 * QUIET_SECONDS + 1:g}"]


def test_a_request_that_is_cut_before_it_is_here_is_counted_and_a_connection_without_one_is_not() -> None:
    def hold(seconds: float) -> None:
        intake = Intake()
        with running(http_receiver(intake, head_seconds=seconds)) as port:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as silent:
                assert silent.recv(1) == b""
            assert intake.refusals == []
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as slow:
                slow.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: ")
                assert slow.recv(1) == b""
            assert intake.refusals == [("http", "too_slow")]

    with_a_limit(hold)
