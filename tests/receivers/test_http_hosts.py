"""Web pages whose names resolve to this machine (DNS rebinding) get nothing, and nobody else is turned away for the name that they use."""

from __future__ import annotations

import http.client
import socket
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.receivers.http.origins import UnknownHostError
from otel_toolcall_eval.receivers.http.pages import Page, health_page
from otel_toolcall_eval.receivers.intake import reason_of
from tests.otlp.otlp_requests import numbered, request_of
from tests.patience import PATIENCE_SECONDS
from tests.receivers.receivers import JSON, PROTOBUF, Intake, ask, http_receiver, post, running
from tests.sidecar.test_control import TRACE, BoundCriteria, listening, put

if TYPE_CHECKING:
    from collections.abc import Iterator

EVIL = "rebound.example:4318"
BODY = request_of(numbered(1)).SerializeToString()
PAGES = {path: health_page(list) for path in ("/livez", "/readyz")} | {
    path: (lambda _accept: Page(body=b"shown")) for path in ("/", "/status", "/metrics", "/debug/traces")
}
GUARDED = ("/", "/status", "/metrics", "/debug/traces")


@pytest.fixture(scope="module")
def loopback() -> Iterator[tuple[Intake, int]]:
    intake = Intake()
    with running(http_receiver(intake, pages=PAGES)) as port:
        yield intake, port


@pytest.mark.parametrize("path", [*GUARDED, "/nowhere"])
def test_a_listener_on_loopback_shows_nothing_to_a_page_that_got_here_by_a_name_of_its_own(loopback: tuple[Intake, int], path: str) -> None:
    intake, port = loopback
    intake.refusals.clear()
    reply = ask(port, "GET", path, Host=EVIL)
    assert (reply.status, reply.content_type) == (421, JSON)
    assert b"listen.allowed_hosts" in reply.body
    assert b"rebound" not in reply.body
    assert intake.refusals == [("http", "unknown_host")]


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST:4318", "localhost.", "sidecar.localhost:80", "127.0.0.1", "127.0.0.1:1", "127.8.8.8:4318"),
        *("[::1]", "[::1]:4318", "[0:0:0:0:0:0:0:1]:80", "[::ffff:127.0.0.1]:4318", ""),
    ],
)
def test_every_name_of_loopback_is_answered_by_any_port(loopback: tuple[Intake, int], host: str) -> None:
    _, port = loopback
    for path in GUARDED:
        assert ask(port, "GET", path, Host=host).body == b"shown"


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1.rebound.example", "localhost.rebound.example", "rebound.example", "localhost@rebound.example", "notlocalhost"),
        *("10.0.0.7:4318", "[fe80::1%25eth0]:4318", "[::1", "::1", "0.0.0.0:4318", "[::]", "localhost:80:80", "sidecar"),
    ],
)
def test_what_only_looks_like_loopback_is_not_answered(loopback: tuple[Intake, int], host: str) -> None:
    _, port = loopback
    assert ask(port, "GET", "/metrics", Host=host).status == 421


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_probes_may_use_any_name(loopback: tuple[Intake, int], path: str) -> None:
    _, port = loopback
    assert ask(port, "GET", path, Host=EVIL).body == b"ok\n"


def answer(port: int, request: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status


def test_old_clients_that_name_no_host_are_answered(loopback: tuple[Intake, int]) -> None:
    _, port = loopback
    assert answer(port, b"GET /metrics HTTP/1.0\r\n\r\n") == 200


def test_a_whole_url_as_target_is_a_name_too(loopback: tuple[Intake, int]) -> None:
    _, port = loopback
    request = b"GET http://%s/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert (answer(port, request % b"rebound.example:4318"), answer(port, request % b"127.0.0.1:4318")) == (421, 200)


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
def test_otlp_by_a_foreign_name_is_taken_from_senders_and_not_from_scripts(loopback: tuple[Intake, int], path: str) -> None:
    _, port = loopback
    assert post(port, BODY if path == "/v1/traces" else b"", path=path, Host="host.docker.internal:4318").status == 200
    for origin in (f"http://{EVIL}", "null"):
        refused = post(port, BODY, path=path, Host=EVIL, Origin=origin)
        assert (refused.status, refused.content_type) == (421, PROTOBUF)
    assert ask(port, "OPTIONS", path, Host=EVIL, Origin=f"http://{EVIL}", Access_Control_Request_Method="POST").status == 421


def test_scripts_of_a_listed_origin_may_send_by_any_name() -> None:
    app = "https://app.example.com"
    with running(http_receiver(Intake(), allowed_origins=frozenset({app}))) as port:
        assert ask(port, "OPTIONS", "/v1/traces", Host=EVIL, Origin=app, Access_Control_Request_Method="POST").status == 204
        assert post(port, BODY, Host=EVIL, Origin=app).status == 200
        assert post(port, BODY, Host=EVIL, Origin="https://other.example").status == 421


def test_names_that_are_listed_are_answered() -> None:
    listed = frozenset({"Scores.example.com", "10.0.0.7", "fd00::7"})
    with running(http_receiver(Intake(), pages=PAGES, allowed_hosts=listed)) as port:
        for host in ("scores.example.com", "SCORES.example.com.:443", "10.0.0.7:80", "[fd00:0::7]:80", "localhost"):
            assert ask(port, "GET", "/debug/traces", Host=host).body == b"shown"
        assert ask(port, "GET", "/debug/traces", Host="example.com").status == 421
    with running(http_receiver(Intake(), pages=PAGES, allowed_hosts=frozenset({"*"}))) as port:
        assert ask(port, "GET", "/debug/traces", Host=EVIL).body == b"shown"


def test_where_others_reach_us_any_name_will_do_but_for_what_is_for_this_machine_alone() -> None:
    with running(http_receiver(Intake(), pages=PAGES, host="0.0.0.0")) as port:  # noqa: S104 - which others can reach
        for host in ("sidecar:4318", "sidecar.agents.svc.cluster.local", "10.0.0.7", EVIL):
            assert ask(port, "GET", "/metrics", Host=host).body == b"shown"
            assert ask(port, "GET", "/debug/traces", Host=host).status == 421
        for host in ("localhost:4318", "127.0.0.1", "0.0.0.0:4318"):
            assert ask(port, "GET", "/debug/traces", Host=host).body == b"shown"
        assert post(port, BODY, Host="sidecar:4318", Origin="http://sidecar:4318").status == 200


def test_where_others_reach_us_and_names_are_listed_no_other_will_do() -> None:
    with running(http_receiver(Intake(), pages=PAGES, host="0.0.0.0", allowed_hosts=frozenset({"sidecar"}))) as port:  # noqa: S104 - as above
        for host, status in (("sidecar:4318", 200), ("127.0.0.1", 200), ("elsewhere", 421), ("10.0.0.7", 421)):
            assert ask(port, "GET", "/metrics", Host=host).status == status
        assert post(port, BODY, Host="elsewhere").status == 200


def test_the_address_that_a_connection_was_made_to_is_a_name() -> None:
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.connect(("192.0.2.1", 9))  # sends nothing; says by which address this machine would
        own = probe.getsockname()[0]
    except OSError:
        pytest.skip("this machine has no address but loopback")
    finally:
        probe.close()
    with running(http_receiver(Intake(), pages=PAGES, host="0.0.0.0", allowed_hosts=frozenset({"sidecar"}))) as port:  # noqa: S104 - as above
        connection = http.client.HTTPConnection(own, port, timeout=PATIENCE_SECONDS)
        connection.request("GET", "/metrics")
        assert connection.getresponse().read() == b"shown"
        connection.close()


def test_the_control_listener_binds_nothing_for_a_page() -> None:
    bound = BoundCriteria()
    with listening(bound) as port:
        assert put(port, ["weather"], Host=EVIL).status == 421
        assert (bound.bound, bound.refusals) == ([], [("control", "unknown_host")])
        assert put(port, ["weather"], Host="localhost:4319").status == 204
    with listening(bound, allowed_hosts=frozenset({"harness"})) as port:
        assert put(port, ["weather"], Host="harness:4319").status == 204
    assert [trace_id for trace_id, _ in bound.bound] == [TRACE, TRACE]


def test_it_is_counted_by_a_reason_of_its_own() -> None:
    assert reason_of(UnknownHostError(where="Host", what="w", fix="f")) == "unknown_host"
