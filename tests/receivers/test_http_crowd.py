"""Who has to go when there are too many connections."""

from __future__ import annotations

import http.client
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.receivers.http import connection as http_crowd
from otel_toolcall_eval.receivers.http.connection import ConnectionPool
from tests.patience import PATIENCE_SECONDS
from tests.receivers.hostile.rows import HEALTHY
from tests.receivers.receivers import Intake, http_receiver, running

if TYPE_CHECKING:
    import pytest


@dataclass(eq=False)
class Client:
    request_is_here: bool = False
    was_cut: bool = False

    def cut(self) -> None:
        self.was_cut = True


def crowd_of(*clients: Client, most: int | None = None) -> ConnectionPool:
    """Let clients in, one each second."""
    crowd = ConnectionPool(len(clients) if most is None else most)
    for second, client in enumerate(clients):
        assert crowd.admit(client, now=float(second))
    return crowd


def test_the_one_that_has_not_finished_a_request_for_longest_makes_room() -> None:
    first, second, third = Client(), Client(), Client()
    crowd = crowd_of(first, second)
    assert crowd.admit(third, now=3.0)
    assert (first.was_cut, second.was_cut, len(crowd)) == (True, False, 2)


def test_who_is_idle_goes_after_those_who_are_slow_and_whoever_begins_is_no_longer_idle() -> None:
    idle, busy, slow = Client(), Client(), Client()
    crowd = crowd_of(idle, busy, slow)
    crowd.is_answered(idle, now=3.0)
    crowd.is_answered(busy, now=3.0)
    crowd.begins(busy, now=9.0)
    assert crowd.admit(Client(), now=10.0)
    assert (idle.was_cut, busy.was_cut, slow.was_cut) == (False, False, True)
    assert crowd.admit(Client(), now=10.0)
    assert (idle.was_cut, busy.was_cut) == (True, False)


def test_nobody_goes_who_has_not_been_slow_for_a_while_or_whose_request_we_have() -> None:
    waiting, young = Client(request_is_here=True), Client()
    crowd = crowd_of(waiting, young)
    assert not crowd.admit(Client(), now=2.5)
    assert [waiting.was_cut, young.was_cut] == [False, False]
    young.request_is_here = True
    assert not crowd.admit(Client(), now=99.0)


def test_who_left_takes_no_place_and_is_not_told_of_any_more() -> None:
    gone = Client()
    crowd = crowd_of(gone)
    crowd.leave(gone)
    crowd.is_answered(gone, now=1.0)
    crowd.begins(gone, now=1.0)
    assert len(crowd) == 0
    assert crowd.admit(Client(), now=1.0)


def ask(connection: socket.socket) -> int | None:
    """Send a healthy request and return the status of its answer; None if the connection is closed."""
    response = http.client.HTTPResponse(connection)
    try:
        connection.sendall(HEALTHY)
        response.begin()
    except (http.client.RemoteDisconnected, ConnectionError):
        return None
    response.read()
    return response.status


def test_one_too_many_is_asked_to_come_again_and_served_once_another_has_been_slow_for_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_crowd, "_PATIENCE_SECONDS", PATIENCE_SECONDS)  # on a busy machine, two seconds pass unseen
    intake = Intake()
    with running(http_receiver(intake, max_connections=3)) as port, ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS))

        served = connect()
        assert ask(served) == 200
        slow = [connect() for _ in range(2)]
        for each in slow:
            each.sendall(HEALTHY[:30])
        refused = connect()
        response = http.client.HTTPResponse(refused)
        response.begin()
        assert (response.status, response.getheader("Retry-After"), response.getheader("Connection")) == (503, "1", "close")
        assert b"too many connections; resend after a delay" in response.read()
        assert intake.refusals == [("http", "overloaded")]
        monkeypatch.setattr(http_crowd, "_PATIENCE_SECONDS", 0.0)  # they have been slow for long enough
        assert ask(connect()) == 200
        assert ask(served) == 200  # the slow ones went first
