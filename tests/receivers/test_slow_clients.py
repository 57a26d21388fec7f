"""Five hundred sockets that keep us waiting, beside clients that don't: these are served, those are cut."""

from __future__ import annotations

import resource
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.patience import wait_for
from tests.receivers.hostile.rows import GOOD, HEALTHY
from tests.receivers.http2 import HELLO, begun_call
from tests.receivers.receivers import Intake, call, grpc_receiver, http_receiver, post, running

if TYPE_CHECKING:
    from collections.abc import Iterator

SOCKETS = 500
KINDS = {
    "idle": b"",
    "slow headers": HEALTHY[:40],
    "slow body": HEALTHY[:-10],
    "slow chunks": HEALTHY.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
}
GRPC_KINDS = {
    "idle": b"",
    "half a hello": HELLO[:10],
    "no call": HELLO,
    "no message": HELLO + begun_call(),
    "half a message": HELLO + begun_call(more=b"\0\0\0\1\0abc"),
}


@contextmanager
def slow_sockets(port: int, kinds: dict[str, bytes]) -> Iterator[list[socket.socket]]:
    """Keep many sockets open, each kind in turn."""
    wanted = 4 * SOCKETS  # both ends of each are files of this process
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this process may open only {hard} files, and {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        with ExitStack() as stack:
            opened = []
            for number in range(SOCKETS):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                connection.sendall(list(kinds.values())[number % len(kinds)])
                opened.append(connection)
            yield opened
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def is_cut(connection: socket.socket) -> bool:
    """Tell whether the server has closed, after whatever it said."""
    connection.settimeout(0)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.slow
@pytest.mark.parametrize("most", [pytest.param(2 * SOCKETS, id="room for all"), pytest.param(SOCKETS // 5, id="room for a fifth")])
def test_http_serves_the_others_and_cuts_the_slow_ones(most: int) -> None:
    intake = Intake()
    receiver = http_receiver(intake, head_seconds=4, body_seconds=4, idle_seconds=4, max_connections=most)
    with running(receiver) as port, slow_sockets(port, KINDS) as opened:
        served = 0

        def serve() -> bool:
            nonlocal served
            with suppress(ConnectionError):  # a few are turned away while it is not yet clear who is slow, if there is not room for all
                served += post(port, GOOD).status == 200
            return served >= 50

        wait_for(serve)
        wait_for(lambda: all(map(is_cut, opened)))
        assert post(port, GOOD).status == 200
    assert len(intake.names) == served + 1


@pytest.mark.slow
def test_grpc_serves_the_others_and_ends_the_slow_calls() -> None:
    intake = Intake()
    with running(grpc_receiver(intake, message_seconds=4)) as port, slow_sockets(port, GRPC_KINDS):
        served = 0

        def serve() -> bool:
            nonlocal served
            served += call(port, GOOD).code == "OK"
            return served >= 50

        wait_for(serve)
        # Those that found no place were refused; the others are ended by and by.
        wait_for(lambda: len(intake.refusals) >= 2 * SOCKETS // len(GRPC_KINDS))
    assert len(intake.names) == served
    assert {reason for _, reason in intake.refusals} <= {"too_slow", "overloaded"}


def test_a_client_that_does_not_read_its_answers_is_cut() -> None:
    intake = Intake()
    with running(http_receiver(intake, body_seconds=0.5)) as port, socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        gone = threading.Event()

        def send() -> None:
            request = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
            try:
                while True:
                    connection.sendall(request)
            except TimeoutError:
                connection.settimeout(20)
                send()
            except OSError:
                gone.set()

        sender = threading.Thread(target=send)
        sender.start()
        assert gone.wait(60)
        sender.join()
        assert post(port, GOOD).status == 200
