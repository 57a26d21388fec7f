from __future__ import annotations

import http.client
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.receivers.http import receiver as otlp_http
from otel_toolcall_eval.receivers.http.pages import Page, health_page, metrics_page
from tests.e2e.ports import held_ports
from tests.otlp.otlp_requests import numbered, request_of, to_json
from tests.patience import PATIENCE_SECONDS, wait_for, with_a_limit
from tests.receivers.receivers import JSON, PROTOBUF, Intake, ask, http_receiver, post, running

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = request_of(numbered(1)).SerializeToString()
LEAVE = b"HTTP/1.1 100 Continue\r\n\r\n"
HEAD = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\n".encode()


def raw(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


def all_of(connection: socket.socket) -> bytes:
    """Read until the server closes; raises TimeoutError if it doesn't."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass  # one way to be cut
    return received


@pytest.fixture(scope="module")
def impatient() -> Iterator[int]:
    with running(http_receiver(Intake(), head_seconds=0.5)) as port:
        yield port


@pytest.fixture(scope="module")
def bounded() -> Iterator[tuple[Intake, int]]:
    intake = Intake()
    with running(http_receiver(intake, max_message_bytes=1 << 20)) as port:
        yield intake, port


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"POST /v1/tra", id="half a line"),
        pytest.param(HEAD, id="headers without an end"),
    ],
)
def test_a_client_that_does_not_finish_its_headers_is_cut(impatient: int, sent: bytes) -> None:
    with raw(impatient) as connection:
        connection.sendall(sent)
        assert all_of(connection) == b""


def test_a_client_that_does_not_finish_the_headers_of_its_second_request_is_cut() -> None:
    whole = HEAD + f"Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY

    def hold(seconds: float) -> None:
        with running(http_receiver(Intake(), head_seconds=seconds)) as port, raw(port) as connection:
            connection.sendall(whole)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            connection.sendall(HEAD)
            assert all_of(connection) == b""

    with_a_limit(hold)


def test_an_idle_connection_between_requests_stays_open() -> None:
    def hold(seconds: float) -> None:
        with running(http_receiver(Intake(), head_seconds=seconds)) as port:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
            for _ in range(2):
                connection.request("POST", "/v1/traces", body=BODY, headers={"Content-Type": PROTOBUF})
                response = connection.getresponse()
                assert (response.status, response.read()) == (200, b"")
                threading.Event().wait(1.4 * seconds)  # longer than a client may take for its headers
            connection.close()

    with_a_limit(hold)


def test_a_client_that_does_not_finish_its_body_is_answered_and_cut() -> None:
    intake = Intake()
    with running(http_receiver(intake, body_seconds=0.3)) as port, raw(port) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\nabc")
        connection.settimeout(20)
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")
        assert intake.refusals == [("http/protobuf", "too_slow")]


def test_more_bytes_at_a_time_than_allowed_are_refused_until_the_others_are_done() -> None:
    intake = Intake()
    with running(http_receiver(intake, max_pending_bytes=100_000)) as port, raw(port) as slow:
        slow.sendall(HEAD + b"Content-Length: 90001\r\n\r\n" + bytes(90_000))
        large = BODY * (20_000 // len(BODY))
        wait_for(lambda: post(port, large).status == 503)  # once the receiver has read what the slow one sent
        assert post(port, large).headers["Retry-After"] == "1"
        assert post(port, BODY).status == 200
        slow.close()
        wait_for(lambda: post(port, large).status == 200)


def test_a_declared_length_above_the_limit_is_refused_before_the_body_is_sent(bounded: tuple[Intake, int]) -> None:
    with raw(bounded[1]) as connection:
        connection.sendall(HEAD + b"Content-Length: 2000000\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


def test_an_endless_body_is_refused_at_the_limit(bounded: tuple[Intake, int]) -> None:
    with raw(bounded[1]) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        for _ in range(40):
            try:
                connection.sendall(chunk)
            except OSError:
                break  # cut
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_client_that_waits_for_leave_to_send_gets_it(bounded: tuple[Intake, int]) -> None:
    with raw(bounded[1]) as connection:
        connection.sendall(HEAD + f"Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode())
        assert connection.recv(65536) == LEAVE
        connection.sendall(BODY)
        assert all_of(connection).startswith(b"HTTP/1.1 200")


def test_a_body_whose_chunks_break_off_is_refused() -> None:
    with running(http_receiver(Intake(), body_seconds=0.3)) as port, raw(port) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(len(LEAVE), socket.MSG_WAITALL) == LEAVE  # and no more, which may have come, too, on a busy machine
        connection.sendall(b"1\r\na\r\nsecret\r\n")
        received = connection.recv(65536)
    assert received.startswith(b"HTTP/1.1 408")  # aiohttp keeps what it found wrong to itself until we give up
    assert b"secret" not in received


def test_a_client_that_stalls_does_not_hold_up_the_stop(caplog: pytest.LogCaptureFixture) -> None:
    receiver = http_receiver(Intake())
    receiver.start()
    with raw(receiver.port) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(65536) == LEAVE
        receiver.stop(grace_seconds=0.1)
        assert all_of(connection) == b""
    assert "requests were cut at shutdown; raise shutdown_timeout" in caplog.text


def test_a_start_that_fails_says_why_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        what = "no threads left"
        raise RuntimeError(what)

    monkeypatch.setattr(otlp_http, "HttpService", fail)
    with held_ports(1) as (address,):
        port = int(address.rpartition(":")[2])
        receiver = http_receiver(Intake(), port=port)
        with pytest.raises(RuntimeError, match="no threads left"):
            receiver.start()
        receiver.stop(grace_seconds=1)
        monkeypatch.undo()
        with running(http_receiver(Intake(), port=port)) as same:
            assert same == port


def test_requests_sent_behind_each_other_are_answered_in_order(bounded: tuple[Intake, int]) -> None:
    intake, port = bounded
    intake.decoded.clear()
    bodies = [request_of(numbered(number)).SerializeToString() for number in (1, 2, 3)]
    with raw(port) as connection:
        for body in bodies:
            connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        received = b""
        while received.count(b"HTTP/1.1 200") < 3:
            more = connection.recv(65536)
            assert more, received
            received += more
    assert intake.names == ["span 1", "span 2", "span 3"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03secret\r\n\r\n", b"400", id="TLS at the plain port"),
        pytest.param(b"secret\r\n\r\n", b"400", id="no HTTP"),
        pytest.param(HEAD + b"Content-Length: secret\r\n\r\n", b"400", id="length in words"),
        pytest.param(HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nsecret", b"400", id="two lengths"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\nsecret\r\n", b"400", id="broken chunk"),
        pytest.param(b"GET /" + b"secret" * 2000 + b" HTTP/1.1\r\n\r\n", b"431", id="long path"),
        pytest.param(HEAD + b"X-Secret: " + b"secret" * 2000 + b"\r\n\r\n", b"431", id="long header"),
        pytest.param(HEAD + b"Connection: close\r\n" + b"X-Secret: secret\r\n" * 100 + b"\r\n", b"400 431", id="many headers"),
    ],
)
def test_what_is_not_http_is_refused_without_an_echo_and_the_next_client_is_served(
    bounded: tuple[Intake, int], sent: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with raw(bounded[1]) as connection:
        connection.sendall(sent)
        received = all_of(connection)
    assert received.startswith(b"HTTP/1.") or received == b""
    assert received[9:12] in status.split()  # which one depends on aiohttp's version
    assert b"ecret" not in received
    assert b"aiohttp" not in received
    assert "ecret" not in caplog.text
    assert post(bounded[1], BODY).status == 200


def test_a_client_that_leaves_in_the_middle_of_its_body_harms_nobody(bounded: tuple[Intake, int], caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(20):
        with raw(bounded[1]) as connection:
            connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\nabc")
    assert post(bounded[1], BODY).status == 200
    assert caplog.text == ""


def test_a_failure_inside_is_logged_without_what_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    with running(http_receiver(Intake(failure=ValueError("secret")))) as port:
        reply = post(port, BODY)
    assert (reply.status, b"secret" in reply.body) == (500, False)
    assert "a request failed inside the receiver" in caplog.text
    assert "secret" not in caplog.text


# --- pages -----------------------------------------------------------------------------------------------------------------------------

problems: list[str] = []


def broken(_accept: str) -> Page:
    what = "secret"
    raise KeyError(what)


PAGES = {
    "/livez": health_page(lambda: ()),
    "/readyz": health_page(lambda: problems),
    "/metrics": metrics_page(lambda accept: (f"accepts {accept}".encode(), "application/openmetrics-text")),
    "/broken": broken,
    "/status": lambda _: Page(body=b"<p>", content_type="text/html"),
}


@pytest.fixture(scope="module")
def pages() -> Iterator[int]:
    with running(http_receiver(Intake(), pages=PAGES)) as port:
        yield port


@pytest.mark.parametrize(
    ("path", "status", "content_type", "body"),
    [
        pytest.param("/livez", 200, "text/plain; charset=utf-8", b"ok\n", id="alive"),
        pytest.param("/readyz", 200, "text/plain; charset=utf-8", b"ok\n", id="ready"),
        pytest.param("/metrics", 200, "application/openmetrics-text", b"accepts text/x", id="metrics"),
        pytest.param("/status", 200, "text/html", b"<p>", id="another page"),
        pytest.param("/livez?verbose", 200, "text/plain; charset=utf-8", b"ok\n", id="with a query"),
        pytest.param("/nowhere", 404, JSON, None, id="unknown"),
        pytest.param("/broken", 500, JSON, None, id="a page that fails"),
    ],
)
def test_pages_are_served(pages: int, path: str, status: int, content_type: str, body: bytes | None) -> None:
    reply = ask(pages, "GET", path, Accept="text/x")
    assert (reply.status, reply.content_type) == (status, content_type)
    assert b"secret" not in reply.body
    if body is not None:
        assert reply.body == body
        head = ask(pages, "HEAD", path)
        assert (head.status, head.body) == (status, b"")


def test_a_page_takes_no_other_method(pages: int) -> None:
    reply = ask(pages, "POST", "/metrics", b"{}", Content_Type=JSON)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")


def test_what_is_not_ready_is_named(pages: int) -> None:
    problems.extend(["draining", "forward queue"])
    try:
        reply = ask(pages, "GET", "/readyz")
    finally:
        problems.clear()
    assert (reply.status, reply.body) == (503, b"draining\nforward queue\n")


def test_health_is_answered_while_a_large_body_is_decoded() -> None:
    class OpenTracesSnapshot(Intake):
        inside = threading.Event()
        go_on = threading.Event()

        def offer(self, decoded: object, *, transport: str) -> None:
            self.inside.set()
            assert self.go_on.wait(PATIENCE_SECONDS)
            super().offer(decoded, transport=transport)  # type: ignore[arg-type]

    intake = OpenTracesSnapshot()
    body = to_json(request_of(*(numbered(number) for number in range(1, 2000))))
    with running(http_receiver(intake, pages=PAGES)) as port:
        sender = threading.Thread(target=post, args=(port, body, JSON))
        sender.start()
        assert intake.inside.wait(PATIENCE_SECONDS)
        assert ask(port, "GET", "/livez").status == 200
        intake.go_on.set()
        sender.join(PATIENCE_SECONDS)
    assert len(intake.names) == 1999
