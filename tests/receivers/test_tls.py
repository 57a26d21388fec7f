"""TLS of both receivers over real sockets: who gets in, who does not, and what a new certificate changes."""

from __future__ import annotations

import gc
import http.client
import logging
import socket
import ssl
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Protocol

import grpc
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.receivers.tls import ServerTls
from tests.otlp.otlp_requests import numbered, request_of
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.certificates import EXPIRED_AT, LONG_AGO, Client, Files
from tests.receivers.receivers import TRACES, Intake, Receiver, grpc_receiver, http_receiver, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

BODY = request_of(numbered(1)).SerializeToString()


class Make(Protocol):
    """Makes a receiver."""

    def __call__(self, intake: Intake, *, tls: ServerTls | None = None) -> Receiver: ...


BOTH = pytest.mark.parametrize("make", [pytest.param(grpc_receiver, id="grpc"), pytest.param(http_receiver, id="http")])


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(folder=tmp_path)
    found.issue()
    return found


def delivers(make: Make, client: Client, port: int) -> bool:
    """Send one request, and tell whether it was taken."""
    if make is grpc_receiver:
        called = client.call(port, BODY)
        assert called.code in {"OK", "UNAVAILABLE"}, called
        return called.code == "OK"
    try:
        return client.post(port, BODY).status == 200
    except (OSError, http.client.HTTPException):
        return False


@BOTH
def test_a_client_that_trusts_the_authority_is_served_and_others_do_not_send(make: Make, files: Files) -> None:
    intake = Intake()
    with running(make(intake, tls=files.tls())) as port:
        assert delivers(make, Client(trusts=files.ca), port)
        assert not delivers(make, Client(trusts=trustme.CA()), port)
        assert not delivers(make, Client(), port)
        assert delivers(make, Client(trusts=files.ca), port)
    assert intake.names == ["span 1"] * 2
    assert intake.refusals == ([] if make is grpc_receiver else [("http", "tls")] * 2)


@BOTH
def test_a_client_that_speaks_tls_to_a_plain_port_is_not_served(make: Make, files: Files) -> None:
    intake = Intake()
    with running(make(intake)) as port:
        assert not delivers(make, Client(trusts=files.ca), port)
    assert intake.names == []


@BOTH
def test_a_client_refuses_an_expired_certificate_and_the_operator_was_warned(make: Make, files: Files) -> None:
    files.issue(expires=EXPIRED_AT)
    tls = files.tls()
    assert [str(warning) for warning in tls.warnings] == [
        (
            f"listen.tls.cert_file: {files.cert_file}: the certificate expired on 2020-01-02 00:00:00Z, and clients will not accept it; "
            "renew it; a new file is taken without a restart"
        )
    ]
    intake = Intake()
    with running(make(intake, tls=tls)) as port:
        assert not delivers(make, Client(trusts=files.ca), port)
    assert intake.names == []


@BOTH
def test_clients_need_a_certificate_of_the_authority_that_is_named_for_them(make: Make, files: Files) -> None:
    theirs = trustme.CA()
    files.trust_clients_of(theirs)
    intake = Intake()
    with running(make(intake, tls=files.tls())) as port:
        assert delivers(make, Client(trusts=files.ca, shows=theirs.issue_cert("client")), port)
        assert not delivers(make, Client(trusts=files.ca), port)
        assert not delivers(make, Client(trusts=files.ca, shows=trustme.CA().issue_cert("client")), port)
        assert not delivers(make, Client(trusts=files.ca, shows=files.ca.issue_cert("client")), port)
        assert not delivers(
            make, Client(trusts=files.ca, shows=theirs.issue_cert("client", not_before=LONG_AGO, not_after=EXPIRED_AT)), port
        )
    assert intake.names == ["span 1"]


@BOTH
@pytest.mark.parametrize(
    ("version", "spoken"),
    [
        pytest.param(ssl.TLSVersion.TLSv1_1, False, id="1.1"),
        pytest.param(ssl.TLSVersion.TLSv1_2, True, id="1.2"),
        pytest.param(ssl.TLSVersion.TLSv1_3, True, id="1.3"),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_tls_is_spoken_from_1_2_on(make: Make, files: Files, version: ssl.TLSVersion, spoken: bool) -> None:  # noqa: FBT001 - a column
    context = Client(trusts=files.ca, highest=version).context()
    assert version_with_a_lax_server(context, files) == version.name.replace("_", ".")  # so it is the server that refuses
    context.set_alpn_protocols(["h2" if make is grpc_receiver else "http/1.1"])
    with running(make(Intake(), tls=files.tls())) as port, socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as raw:
        if spoken:
            with context.wrap_socket(raw, server_hostname="localhost") as wrapped:
                assert wrapped.version() == version.name.replace("_", ".")
        else:
            with pytest.raises(OSError, match=r"EOF|PROTOCOL_VERSION|reset"):
                context.wrap_socket(raw, server_hostname="localhost")


def version_with_a_lax_server(client: ssl.SSLContext, files: Files) -> str | None:
    """Return what a client speaks to a server, in memory, that takes every version."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.set_ciphers("DEFAULT:@SECLEVEL=0")
    server.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    server.load_cert_chain(files.cert_file, files.key_file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(to_client, to_server, server_hostname="localhost"), server.wrap_bio(to_server, to_client, server_side=True))
    for end in ends * 5:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return ends[0].version()


@BOTH
def test_a_new_certificate_is_shown_to_new_connections_and_open_ones_go_on(make: Make, files: Files) -> None:
    old, new = files.ca, trustme.CA()
    tls, intake = files.tls(), Intake()
    with running(make(intake, tls=tls)) as port, Client(trusts=old).channel(port) as channel:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS, context=Client(trusts=old).context())
        export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACES, None, None)

        def send() -> None:
            """Send over the connection that is open."""
            if make is grpc_receiver:
                export(BODY, timeout=PATIENCE_SECONDS)
                return
            connection.request("POST", "/v1/traces", body=BODY, headers={"Content-Type": "application/x-protobuf"})
            assert connection.getresponse().read() == b""

        send()
        files.ca = new
        files.issue()
        tls.refresh()
        assert delivers(make, Client(trusts=new), port)
        assert not delivers(make, Client(trusts=old), port)
        send()
        connection.close()
    assert intake.names == ["span 1"] * 3


@BOTH
def test_a_new_authority_of_clients_replaces_the_old_one(make: Make, files: Files) -> None:
    old, new = trustme.CA(), trustme.CA()
    files.trust_clients_of(old)
    tls = files.tls()
    with running(make(Intake(), tls=tls)) as port:
        assert delivers(make, Client(trusts=files.ca, shows=old.issue_cert("client")), port)
        files.trust_clients_of(new)
        tls.refresh()
        assert delivers(make, Client(trusts=files.ca, shows=new.issue_cert("client")), port)
        assert not delivers(make, Client(trusts=files.ca, shows=old.issue_cert("client")), port)


def test_a_session_of_before_does_not_get_a_client_past_a_new_authority(files: Files) -> None:
    old = trustme.CA()
    files.trust_clients_of(old)
    tls = files.tls()
    context = Client(trusts=files.ca, shows=old.issue_cert("client"), highest=ssl.TLSVersion.TLSv1_2).context()

    def resumed(port: int, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
        raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as wrapped:
            wrapped.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert wrapped.recv(100)
            return wrapped.session, bool(wrapped.session_reused)

    with running(http_receiver(Intake(), tls=tls)) as port:
        session, _ = resumed(port, None)
        assert resumed(port, session)[1]  # so the test would see it
        files.trust_clients_of(trustme.CA())
        tls.refresh()
        with pytest.raises(OSError, match=r"ALERT|EOF|reset"):
            resumed(port, session)


@BOTH
def test_files_that_can_not_be_used_leave_the_old_ones_in_force_and_are_complained_about_once(
    make: Make, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tls = files.tls()
    key = files.key_file.read_bytes()
    client = Client(trusts=files.ca)
    with running(make(Intake(), tls=tls)) as port:
        files.key_file.write_bytes(trustme.CA().issue_cert("localhost").private_key_pem.bytes())
        tls.refresh()
        assert caplog.text == ""  # a certificate and its key are two files, and this may be the moment between them
        for _ in range(3):
            tls.refresh()
        assert caplog.text.count("files could not be read again") == 1
        assert delivers(make, client, port)
        files.key_file.unlink()
        tls.refresh()
        assert delivers(make, client, port)
        files.key_file.write_bytes(key)
        tls.refresh()
        files.cert_file.write_bytes(b"")
        for _ in range(3):
            tls.refresh()
        assert caplog.text.count("files could not be read again") == 2  # an episode of its own
        assert delivers(make, client, port)
        files.issue()
        tls.refresh()
        assert caplog.text.count("files were read again") == 1
        assert delivers(make, client, port)
    assert "PRIVATE" not in caplog.text


def test_certificate_that_expires_in_service_is_told_once(
    files: Files, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = files.tls()
    tls.refresh()
    assert caplog.text == ""
    monkeypatch.setattr("otel_toolcall_eval.receivers.tls.time.time", lambda: tls.material.expires)
    for _ in range(3):
        tls.refresh()
    assert caplog.text.count("the certificate expired on") == 1


def write_made_by_hand(files: Files, key: CertificateIssuerPrivateKeyTypes, purpose: x509.ObjectIdentifier) -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    cert = (
        x509.CertificateBuilder()
        .issuer_name(name)
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(LONG_AGO)
        .not_valid_after(LONG_AGO.replace(year=2999))
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )
    files.cert_file.write_bytes(cert.public_bytes(Encoding.PEM))
    files.key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def test_certificate_that_is_not_for_servers_is_warned_about(files: Files) -> None:
    write_made_by_hand(files, ec.generate_private_key(ec.SECP256R1()), ExtendedKeyUsageOID.CLIENT_AUTH)
    assert [str(warning) for warning in files.tls().warnings] == [
        f"listen.tls.cert_file: {files.cert_file}: clients will not accept the certificate (unsuitable certificate purpose); renew it"
    ]


@pytest.mark.parametrize(
    ("key", "usable"),
    [
        pytest.param(rsa.generate_private_key(65537, 2048), True, id="RSA"),
        pytest.param(ec.generate_private_key(ec.SECP256R1()), True, id="P-256"),
        pytest.param(ec.generate_private_key(ec.SECP384R1()), True, id="P-384"),
        pytest.param(ec.generate_private_key(ec.SECP521R1()), False, id="P-521"),
        pytest.param(ed25519.Ed25519PrivateKey.generate(), False, id="Ed25519"),
    ],
)
def test_keys_that_grpc_can_not_use_are_refused_and_would_let_nobody_in(
    files: Files,
    key: CertificateIssuerPrivateKeyTypes,
    usable: bool,  # noqa: FBT001 - a column
) -> None:
    write_made_by_hand(files, key, ExtendedKeyUsageOID.SERVER_AUTH)
    lax = ServerTls(setting="listen.tls", cert_file=files.cert_file, key_file=files.key_file)
    with running(http_receiver(Intake(), tls=lax)) as port:
        assert handshakes(port, "http/1.1")
    with running(grpc_receiver(Intake(), tls=lax)) as port:
        credentials = grpc.ssl_channel_credentials(files.cert_file.read_bytes())
        with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options=[("grpc.ssl_target_name_override", "localhost")]) as channel:
            export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACES, None, None)
            with nullcontext() if usable else pytest.raises(grpc.RpcError):
                export(BODY, timeout=PATIENCE_SECONDS)
    with nullcontext() if usable else pytest.raises(SettingsError, match="gRPC can't use a certificate with this kind of key"):
        ServerTls(setting="listen.tls", cert_file=files.cert_file, key_file=files.key_file, for_grpc=True)


def handshakes(port: int, protocol: str) -> bool:
    """Tell whether a client that trusts everybody gets through a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as raw, context.wrap_socket(raw) as wrapped:
        return wrapped.selected_alpn_protocol() == protocol


@BOTH
@pytest.mark.parametrize("sent", [pytest.param(b"", id="silent"), pytest.param(b"\x16\x03\x01\x02\x00", id="half a greeting")])
def test_clients_in_the_middle_of_anything_do_not_hold_up_the_stop(make: Make, files: Files, sent: bytes) -> None:
    before = {thread.name for thread in threading.enumerate()}
    intake = Intake()
    receiver = make(intake, tls=files.tls())
    receiver.start()
    idle = http.client.HTTPSConnection("127.0.0.1", receiver.port, timeout=PATIENCE_SECONDS, context=Client(trusts=files.ca).context())
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(sent)
        if make is http_receiver:
            idle.request("POST", "/v1/traces", body=BODY, headers={"Content-Type": "application/x-protobuf"})
            assert idle.getresponse().read() == b""
        assert delivers(make, Client(trusts=files.ca), receiver.port)
        receiver.stop(grace_seconds=5)
    idle.close()
    wait_for(lambda: {thread.name for thread in threading.enumerate()} <= before)
    gc.collect()  # transports that nobody closed would complain now


def test_a_client_that_does_not_finish_its_handshake_is_cut(files: Files) -> None:
    with (
        running(http_receiver(Intake(), tls=files.tls(), head_seconds=0.3)) as port,
        socket.create_connection(("127.0.0.1", port), 20) as raw,
    ):
        raw.sendall(b"\x16\x03\x01\x02\x00")
        assert raw.recv(100) == b""


OLD_ENCRYPTED_KEY = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMII=\n-----END RSA PRIVATE KEY-----\n"
DECRYPT = "the private key is encrypted; decrypt it, as with `openssl pkey -in KEY -out PLAIN_KEY`, and let only our user read it"


def put_folder(files: Files) -> None:
    files.cert_file.unlink()
    files.cert_file.mkdir()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        pytest.param(
            lambda files: files.cert_file.unlink(),
            "cert_file: {cert}: the file can't be read (No such file or directory); check its name and permissions",
            id="no file",
        ),
        pytest.param(put_folder, "cert_file: {cert}: this is not a regular file; name a file", id="folder"),
        pytest.param(
            lambda files: files.cert_file.write_text("x"),
            "cert_file: {cert}: the file holds no certificate in PEM form; name the certificate",
            id="no certificate",
        ),
        pytest.param(
            lambda files: files.cert_file.write_text("-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"),
            "cert_file: {cert}: OpenSSL can't use this certificate and its key",
            id="broken certificate",
        ),
        pytest.param(
            lambda files: files.key_file.write_bytes(files.cert_file.read_bytes()),
            "key_file: {key}: the file holds no private key in PEM form; name the private key",
            id="certificate for the key",
        ),
        pytest.param(
            lambda files: files.key_file.write_bytes(trustme.CA().issue_cert("a").private_key_pem.bytes()),
            "key_file: {key}: the key does not belong to the certificate in {cert}; name the key that the certificate was made for",
            id="another key",
        ),
        pytest.param(
            lambda files: files.key_file.write_bytes(trustme.CA(key_type=trustme.KeyType.RSA).private_key_pem.bytes()),
            "key_file: {key}: the key does not belong to the certificate in {cert}; name the key that the certificate was made for",
            id="key of another kind",
        ),
        pytest.param(
            lambda files: files.key_file.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII=\n-----END ENCRYPTED PRIVATE KEY-----\n"),
            f"key_file: {{key}}: {DECRYPT}",
            id="encrypted key",
        ),
        pytest.param(
            lambda files: files.key_file.write_text(OLD_ENCRYPTED_KEY), f"key_file: {{key}}: {DECRYPT}", id="encrypted the old way"
        ),
        pytest.param(
            lambda files: files.key_file.write_bytes(bytes(2 << 20)),
            "key_file: {key}: the file has more than 1 MiB; name the right file",
            id="huge",
        ),
        pytest.param(
            lambda files: files.client_ca_file.write_text("none"),
            "client_ca_file: {ca}: the file holds no certificate in PEM form that OpenSSL can use; "
            "name the authority that signs the clients' certificates",
            id="no authority",
        ),
    ],
)
def test_files_that_can_not_be_used_say_what_to_do(files: Files, damage: Callable[[Files], object], expected: str) -> None:
    files.trust_clients_of(trustme.CA())
    damage(files)
    with pytest.raises(SettingsError) as refused:
        files.tls()
    wanted = expected.format(cert=files.cert_file, key=files.key_file, ca=files.client_ca_file)
    assert str(refused.value).startswith(f"listen.tls.{wanted}")
    assert "BEGIN" not in str(refused.value)


def test_key_that_everybody_can_read_is_warned_about(files: Files) -> None:
    assert files.tls().warnings == []
    files.key_file.chmod(0o644)
    assert [str(warning) for warning in files.tls().warnings] == [
        (
            f"listen.tls.key_file: {files.key_file}: every user of this machine can read this file; "
            "take the right to read it from others, as with chmod o-r (in Kubernetes: defaultMode: 0440)"
        )
    ]
