"""What each client makes of the answers of real servers, and of what is none."""

from __future__ import annotations

import errno
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import grpc
import pytest
import trustme
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from otel_toolcall_eval.exporters.forward.downstream import (
    Delivered,
    Downstream,
    Outcome,
    QueuedRequest,
    Refused,
    RetryLater,
    Token,
    tls_of,
)
from otel_toolcall_eval.exporters.forward.grpc_client import GrpcClient
from otel_toolcall_eval.exporters.forward.http_client import HttpClient
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.otlp.replies import Encoding, Signal, export_reply
from otel_toolcall_eval.receivers.tokens import Tokens
from tests.e2e.ports import held_ports
from tests.exporters.forward.downstreams import Answer, Behaviour, grpc_downstream, grpc_path, http_downstream
from tests.patience import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from otel_toolcall_eval.exporters.forward.downstream import Client

    Make = Callable[[Downstream], Client]
    Serve = Callable[[Behaviour], AbstractContextManager[int]]

BODY = b"\x0a\x00\xff whatever it is"
CLIENTS: Mapping[str, tuple[Callable[[Downstream], Client], Callable[[Behaviour], AbstractContextManager[int]]]] = {
    "grpc": (GrpcClient, grpc_downstream),
    "http": (HttpClient, http_downstream),
}


def parcel(signal: Signal = Signal.TRACES, encoding: Encoding = Encoding.PROTOBUF, body: bytes = BODY) -> QueuedRequest:
    return QueuedRequest(signal=signal, encoding=encoding, body=body)


@contextmanager
def speaking(kind: str, port: int, **given: object) -> Iterator[Client]:
    downstream = Downstream(**{"endpoint": f"http://127.0.0.1:{port}", "timeout_seconds": PATIENCE_SECONDS, **given})  # type: ignore[arg-type]
    client = CLIENTS[kind][0](downstream)
    client.start()
    try:
        yield client
    finally:
        client.close()
        client.close()


@pytest.fixture(params=list(CLIENTS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def outcome(kind: str, answer: Answer, sent: QueuedRequest | None = None, **given: object) -> Outcome:
    behaviour = Behaviour(always=answer)
    with CLIENTS[kind][1](behaviour) as port, speaking(kind, port, **given) as client:
        return client.send(sent or parcel())


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("signal", list(Signal), ids=lambda signal: signal.name)
def test_bodies_arrive_unchanged_with_their_headers(kind: str, signal: Signal, packed: bool, tmp_path: Path) -> None:  # noqa: FBT001
    token = tmp_path / "token"
    token.write_text(" s3cret\n")
    token.chmod(0o644)
    behaviour = Behaviour()
    with CLIENTS[kind][1](behaviour) as port, speaking(kind, port, gzip=packed, headers={"x-tenant": "a"}, token_file=token) as client:
        assert client.send(parcel(signal)) == Delivered()
        assert len(client.warnings) == 1  # others may read the file
        token.write_text("n3w")
        client.refresh()
        assert client.send(parcel(signal, body=b"x" * 3_000_000)) == Delivered()
        token.unlink()
        client.refresh()
        assert client.send(parcel(signal, body=b"")) == Delivered()
    assert behaviour.bodies == [BODY, b"x" * 3_000_000, b""]
    assert {got.path for got in behaviour.got} == {grpc_path(signal) if kind == "grpc" else f"/v1/{signal.name.lower()}"}
    assert [got.headers["authorization"] for got in behaviour.got] == ["Bearer s3cret", "Bearer n3w", "Bearer n3w"]
    first = behaviour.got[0].headers
    assert first["x-tenant"] == "a"
    assert "otel-toolcall-eval" in first["user-agent"]
    if kind == "http":
        assert first["content-type"] == "application/x-protobuf"
        assert first.get("content-encoding") == ("gzip" if packed else None)


def test_json_goes_on_as_json_over_http_alone() -> None:
    behaviour = Behaviour()
    with http_downstream(behaviour) as port, speaking("http", port, endpoint=f"http://127.0.0.1:{port}/base/") as client:
        assert client.takes_json
        client.send(parcel(encoding=Encoding.JSON, body=b"{}"))
    assert (behaviour.got[0].path, behaviour.got[0].headers["content-type"]) == ("/base/v1/traces", "application/json")
    assert not GrpcClient(Downstream(endpoint="http://127.0.0.1:1")).takes_json


def retry_info(seconds: int) -> bytes:
    encoded: bytes = RetryInfo(retry_delay=Duration(seconds=seconds)).SerializeToString()
    return encoded


def status_details(seconds: int) -> bytes:
    status = Status(code=14)
    status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=seconds)))
    encoded: bytes = status.SerializeToString()
    return encoded


C = grpc.StatusCode


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(Answer(code=C.UNAVAILABLE), RetryLater(code="UNAVAILABLE"), id="unavailable"),
        pytest.param(Answer(code=C.ABORTED), RetryLater(code="ABORTED"), id="aborted"),
        pytest.param(Answer(code=C.DATA_LOSS), RetryLater(code="DATA_LOSS"), id="data loss"),
        pytest.param(Answer(code=C.RESOURCE_EXHAUSTED), Refused(code="RESOURCE_EXHAUSTED"), id="exhausted"),
        pytest.param(
            Answer(code=C.RESOURCE_EXHAUSTED, headers=(("grpc-status-details-bin", status_details(3)),)),
            RetryLater(code="RESOURCE_EXHAUSTED", after_seconds=3),
            id="exhausted for a while",
        ),
        pytest.param(
            Answer(code=C.UNAVAILABLE, headers=(("google.rpc.retryinfo-bin", retry_info(2)), ("x", "y"))),
            RetryLater(code="UNAVAILABLE", after_seconds=2),
            id="the other trailer",
        ),
        pytest.param(
            Answer(code=C.UNAVAILABLE, headers=(("grpc-status-details-bin", b"\xff\xff"),)),
            RetryLater(code="UNAVAILABLE"),
            id="broken trailer",
        ),
        pytest.param(Answer(code=C.INVALID_ARGUMENT), Refused(code="INVALID_ARGUMENT"), id="invalid"),
        pytest.param(Answer(code=C.UNAUTHENTICATED), Refused(code="UNAUTHENTICATED"), id="unauthenticated"),
        pytest.param(Answer(code=C.UNIMPLEMENTED), Refused(code="UNIMPLEMENTED"), id="unimplemented"),
        pytest.param(Answer(body=b"\x0a\x02\x08\x07"), Delivered(rejected=7), id="partial success"),
        pytest.param(Answer(body=b"garbage"), Delivered(), id="garbage"),
        pytest.param(Answer(body=b"\x0a\x02\x08\x07" + b"\x12\x00" * 2_000_000), Refused(code="RESOURCE_EXHAUSTED"), id="huge"),
    ],
)
def test_answers_over_grpc(answer: Answer, expected: Outcome) -> None:
    assert outcome("grpc", answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(Answer(status=429), RetryLater(code="429"), id="429"),
        pytest.param(Answer(status=502), RetryLater(code="502"), id="502"),
        pytest.param(Answer(status=503, headers=(("Retry-After", "7"),)), RetryLater(code="503", after_seconds=7), id="503 with seconds"),
        pytest.param(
            Answer(status=503, headers=(("Retry-After", "Thu, 01 Jan 1970 00:00:00 GMT"),)),
            RetryLater(code="503", after_seconds=0),
            id="503 with a date",
        ),
        pytest.param(Answer(status=504, headers=(("Retry-After", "soon"),)), RetryLater(code="504"), id="504 with words"),
        pytest.param(Answer(status=400), Refused(code="400"), id="400"),
        pytest.param(Answer(status=401), Refused(code="401"), id="401"),
        pytest.param(Answer(status=413), Refused(code="413"), id="413"),
        pytest.param(Answer(status=500), Refused(code="500"), id="500"),
        pytest.param(Answer(status=307, headers=(("Location", "http://127.0.0.1:9/"),)), Refused(code="307"), id="redirect"),
        pytest.param(Answer(status=202, body=b"<html>"), Delivered(), id="garbage"),
        pytest.param(Answer(body=b"x" * 5_000_000), Delivered(), id="huge"),
        pytest.param(Answer(body=b"\x0a\x02\x08\x07"), Delivered(rejected=7), id="partial success"),
    ],
)
def test_answers_over_http(answer: Answer, expected: Outcome) -> None:
    assert outcome("http", answer) == expected


def test_partial_success_in_json() -> None:
    answer = Answer(body=export_reply(Encoding.JSON, Signal.LOGS, rejected=2, reasons="no"))
    assert outcome("http", answer, parcel(Signal.LOGS, Encoding.JSON, b"{}")) == Delivered(rejected=2)


def test_nobody_there_is_tried_again(kind: str) -> None:
    with held_ports(1) as (address,), speaking(kind, 0, endpoint=f"http://{address}") as client:
        assert isinstance(client.send(parcel()), RetryLater)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"", id="closes"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", id="speaks something else"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000, id="endless header"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n", id="broken length"),
    ],
)
def test_what_is_no_otlp_at_all_is_tried_again(kind: str, reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(1 << 16)
                        connection.sendall(reply)
                    except OSError:
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        with speaking(kind, listening.getsockname()[1], timeout_seconds=2.0) as client:
            found = client.send(parcel())
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert isinstance(found, RetryLater)


def test_a_downstream_that_answers_drop_by_drop_is_cut_off() -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                try:
                    while not stop.wait(0.02):
                        connection.sendall(b"H")
                except OSError:
                    pass

        thread = threading.Thread(target=drip)
        thread.start()
        with speaking("http", listening.getsockname()[1], timeout_seconds=0.3) as client:
            found = client.send(parcel())
        stop.set()
        thread.join()
    assert isinstance(found, RetryLater)


def test_a_downstream_that_does_not_answer_is_cut_off_and_reached_again_afterwards(kind: str) -> None:
    go = threading.Event()
    behaviour = Behaviour()
    behaviour.answers.extend([Answer(waits=go)] * 4)
    with CLIENTS[kind][1](behaviour) as port, speaking(kind, port, timeout_seconds=0.3) as client:
        codes = {client.send(parcel()).code for _ in range(4)}  # type: ignore[union-attr]
        go.set()
        wait_for(lambda: client.send(parcel()) == Delivered(), "an answer in time")  # on a busy machine not the first one
    assert codes == {"DEADLINE_EXCEEDED" if kind == "grpc" else "timeout"}


def test_closing_cuts_what_is_under_way(kind: str) -> None:
    go = threading.Event()
    behaviour = Behaviour(always=Answer(waits=go))
    found: list[Outcome] = []
    with CLIENTS[kind][1](behaviour) as port, speaking(kind, port, timeout_seconds=PATIENCE_SECONDS) as client:
        thread = threading.Thread(target=lambda: found.append(client.send(parcel())))
        thread.start()
        wait_for(lambda: behaviour.got, "the request")
        client.close()
        thread.join(PATIENCE_SECONDS)
        go.set()
        assert isinstance(found[0], RetryLater)
        assert client.send(parcel()) == RetryLater(code="closed")


@pytest.mark.parametrize(
    ("given", "where"),
    [
        pytest.param({"token_file": "missing"}, "forward.token_file", id="no token"),
        pytest.param({"token_file": "two words"}, "forward.token_file", id="no token in it"),
        pytest.param({"ca_file": "missing"}, "forward.tls.ca_file", id="no certificates"),
        pytest.param({"ca_file": "two words"}, "forward.tls.ca_file", id="no certificates in it"),
        pytest.param({"cert_file": "two words", "key_file": "two words"}, "forward.tls.cert_file", id="no certificate of ours"),
        pytest.param({"cert_file": "two words", "key_file": "missing"}, "forward.tls.key_file", id="no key"),
    ],
)
def test_files_that_can_not_be_used_are_named_at_the_start(kind: str, given: dict[str, str], where: str, tmp_path: Path) -> None:
    (tmp_path / "two words").write_text("se cret")
    paths = {name: tmp_path / path for name, path in given.items()}
    with pytest.raises(SettingsError) as refused:
        CLIENTS[kind][0](Downstream(endpoint="https://127.0.0.1:1", **paths))  # type: ignore[arg-type]
    assert refused.value.problems[0].where.startswith(where)
    assert "se cret" not in str(refused.value)


def test_a_token_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    path.chmod(0o600)
    token = Token(path)
    assert (token.header, token.warnings) == ("Bearer one", [])
    (tmp_path / "other").write_text("two")
    (tmp_path / "other").replace(path)
    token.refresh()
    assert token.header == "Bearer two"
    path.write_text("")
    token.refresh()
    assert token.header == "Bearer two"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        pytest.param("# rotated in May\n\nnew-token\nold-token\n", "new-token", id="the form of those that are asked for"),
        pytest.param("\ufeffnew-token\r\n", "new-token", id="from Windows"),
        pytest.param("new token", "forward.token_file: {}: line 1 is not a token; write one token a line", id="blank"),
        pytest.param("# none yet\n", "forward.token_file: {}: the file holds no token; write one into it", id="none"),
    ],
)
def test_a_token_file_is_read_by_the_rule_of_those_that_are_asked_for(content: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(content)
    if " " not in shown:
        assert Token(path).header == f"Bearer {shown}"
        asking = Tokens(path, setting="listen.token_file")
        asking.check(Token(path).header)
        return
    with pytest.raises(SettingsError) as refused:
        Token(path)
    assert str(refused.value).startswith(shown.format(path))


def test_addresses() -> None:
    downstream = Downstream(endpoint="https://user:pass@[::1]/x", headers={"authorization": "s3cret"})
    assert (downstream.authority, downstream.shown, downstream.is_tls) == ("[::1]:4317", "https://[::1]/x", True)
    assert "s3cret" not in repr(downstream)
    assert "pass@" not in repr(downstream)


def test_private_key_shows_in_no_repr(tmp_path: Path) -> None:
    made = trustme.CA().issue_cert("localhost")
    made.private_key_pem.write_to_path(tmp_path / "key.pem")
    made.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    tls = tls_of(Downstream(endpoint="https://localhost", cert_file=tmp_path / "cert.pem", key_file=tmp_path / "key.pem")).value
    assert tls.key == made.private_key_pem.bytes()
    assert "PRIVATE KEY" not in repr(tls)


def test_client_that_can_not_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file_left() -> NoReturn:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr("asyncio.new_event_loop", no_file_left)
    monkeypatch.setattr("asyncio.events.new_event_loop", no_file_left)
    with pytest.raises(OSError, match="too many open files"):
        HttpClient(Downstream(endpoint="http://localhost:1")).start()
