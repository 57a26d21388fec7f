from __future__ import annotations

import errno
import socket

import pytest

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.receivers.listening import check_free, display_address, listen


@pytest.mark.parametrize(
    ("host", "text"),
    [
        pytest.param("127.0.0.1", "127.0.0.1:4317", id="IPv4"),
        pytest.param("::1", "[::1]:4317", id="IPv6"),
        pytest.param("localhost", "localhost:4317", id="name"),
    ],
)
def test_an_address_is_written_as_people_do(host: str, text: str) -> None:
    assert display_address(host, 4317) == text


def test_a_free_port_is_bound_and_given_back() -> None:
    with listen("127.0.0.1", 0, port_option="--port") as bound:
        port = bound.getsockname()[1]
        with pytest.raises(SettingsError, match="the port is in use; stop the other process or choose another port with --port"):
            check_free("127.0.0.1", port, port_option="--port")
    check_free("127.0.0.1", port, port_option="--port")


@pytest.mark.parametrize(
    ("host", "what"),
    [
        pytest.param("192.0.2.1", "this machine has no such address", id="another machine's address"),
        pytest.param("no.such.host.invalid", "the host name is not known", id="unknown name"),
        pytest.param("a" * 64 + ".x", "the host name is not known", id="no name at all"),
    ],
)
def test_an_address_that_can_not_be_had_says_why(host: str, what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        check_free(host, 0, port_option="--port")


@pytest.mark.parametrize(
    ("number", "what"),
    [
        pytest.param(errno.EACCES, "no permission to listen on this port; choose a port above 1023 with --port", id="not allowed"),
        pytest.param(errno.EMFILE, "can't listen here (Too many open files); choose another address", id="anything else"),
    ],
)
def test_other_refusals_of_the_system_are_put_in_words(monkeypatch: pytest.MonkeyPatch, number: int, what: str) -> None:
    class Refusing(socket.socket):
        def bind(self, address: object, /) -> None:
            del address
            raise OSError(number, "Too many open files")

    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(SettingsError) as refused:
        check_free("127.0.0.1", 80, port_option="--port")
    assert str(refused.value) == f"127.0.0.1:80: {what}"


def test_ipv6_is_bound_where_there_is_any() -> None:
    try:
        bound = listen("::1", 0, port_option="--port")
    except SettingsError:
        pytest.skip("no IPv6 here")
    with bound:
        assert bound.family == socket.AF_INET6
