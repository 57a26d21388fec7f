"""TLS to the downstream: checked against the right authority, with our own certificate where one is asked for, and refused else."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import grpc
import pytest
import trustme

from otel_toolcall_eval.exporters.forward.downstream import Delivered, Downstream, QueuedRequest, RetryLater, tls_of
from otel_toolcall_eval.exporters.forward.grpc_client import GrpcClient
from otel_toolcall_eval.exporters.forward.http_client import HttpClient
from otel_toolcall_eval.otlp.replies import Encoding, Signal
from tests.exporters.forward.downstreams import Behaviour, grpc_downstream, http_downstream
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from otel_toolcall_eval.exporters.forward.downstream import Client, Outcome

PARCEL = QueuedRequest(signal=Signal.LOGS, encoding=Encoding.PROTOBUF, body=b"x")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> dict[str, Path]:
    """Write what our side needs."""
    ours = authority.issue_cert("client@example.org")
    paths = {name: tmp_path / f"{name}.pem" for name in ("ca_file", "cert_file", "key_file")}
    authority.cert_pem.write_to_path(str(paths["ca_file"]))
    ours.cert_chain_pems[0].write_to_path(str(paths["cert_file"]))
    ours.private_key_pem.write_to_path(str(paths["key_file"]))
    return paths


def serving(kind: str, behaviour: Behaviour, authority: trustme.CA, *, asks: bool) -> AbstractContextManager[int]:
    server = authority.issue_cert("127.0.0.1", "localhost")
    chain = b"".join(pem.bytes() for pem in server.cert_chain_pems)
    if kind == "grpc":
        pairs = [(server.private_key_pem.bytes(), chain)]
        roots = authority.cert_pem.bytes() if asks else None
        return grpc_downstream(behaviour, credentials=grpc.ssl_server_credentials(pairs, roots, require_client_auth=asks))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.configure_cert(context)
    if asks:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return http_downstream(behaviour, wrap=lambda plain: context.wrap_socket(plain, server_side=True))


@pytest.fixture(params=["grpc", "http"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sent(kind: str, port: int, **paths: Path) -> Outcome:
    downstream = Downstream(endpoint=f"https://127.0.0.1:{port}", timeout_seconds=PATIENCE_SECONDS, **paths)  # type: ignore[arg-type]
    client = GrpcClient(downstream) if kind == "grpc" else HttpClient(downstream)
    client.start()
    try:
        return client.send(PARCEL)
    finally:
        client.close()


@pytest.mark.parametrize("asks", [False, True], ids=["TLS", "mutual TLS"])
def test_what_is_trusted_is_sent_to(kind: str, authority: trustme.CA, files: dict[str, Path], asks: bool) -> None:  # noqa: FBT001
    behaviour = Behaviour()
    with serving(kind, behaviour, authority, asks=asks) as port:
        assert sent(kind, port, **(files if asks else {"ca_file": files["ca_file"]})) == Delivered()
    assert behaviour.bodies == [b"x"]


@pytest.mark.parametrize("case", ["another authority", "no authority", "no certificate of ours"])
def test_nothing_is_sent_to_what_is_not_trusted_or_does_not_trust_us(
    kind: str, authority: trustme.CA, files: dict[str, Path], tmp_path: Path, case: str
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    paths = {"another authority": {"ca_file": other}, "no authority": {}}.get(case, {"ca_file": files["ca_file"]})
    behaviour = Behaviour()
    with serving(kind, behaviour, authority, asks=case == "no certificate of ours") as port:
        assert isinstance(sent(kind, port, **paths), RetryLater)
    assert behaviour.got == []


def test_nothing_below_tls_1_2_is_spoken(files: dict[str, Path]) -> None:
    context = tls_of(Downstream(endpoint="https://a", ca_file=files["ca_file"])).value.context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.check_hostname


def test_files_that_are_replaced_are_used_from_the_next_connection_on(kind: str, authority: trustme.CA, files: dict[str, Path]) -> None:
    right = files["ca_file"].read_bytes()
    trustme.CA().cert_pem.write_to_path(str(files["ca_file"]))
    behaviour = Behaviour()
    with serving(kind, behaviour, authority, asks=True) as port:
        downstream = Downstream(endpoint=f"https://127.0.0.1:{port}", timeout_seconds=PATIENCE_SECONDS, **files)  # type: ignore[arg-type]
        client: Client = GrpcClient(downstream) if kind == "grpc" else HttpClient(downstream)
        client.start()
        try:
            outcomes = [client.send(PARCEL)]
            files["ca_file"].write_bytes(right)
            client.refresh()
            outcomes.append(client.send(PARCEL))
            files["ca_file"].write_bytes(b"no certificate")
            client.refresh()
            outcomes.append(client.send(PARCEL))
        finally:
            client.close()
    assert isinstance(outcomes[0], RetryLater)
    assert outcomes[1:] == [Delivered(), Delivered()]
    assert client.warnings == ()
