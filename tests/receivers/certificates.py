"""Certificates and tokens of a test: an authority of its own, files of secrets, and clients that show what they are told."""

from __future__ import annotations

import datetime as dt
import http.client
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
import trustme

from otel_toolcall_eval.receivers.tls import ServerTls
from otel_toolcall_eval.receivers.tokens import Tokens
from tests.patience import PATIENCE_SECONDS
from tests.receivers.receivers import PROTOBUF, TRACES, Called, Reply

if TYPE_CHECKING:
    from pathlib import Path

LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
EXPIRED_AT = LONG_AGO + dt.timedelta(days=1)


def write_secret(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def chain_of(cert: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in cert.cert_chain_pems)


@dataclass(kw_only=True)
class Files:
    """The files of one listener in a folder."""

    folder: Path
    ca: trustme.CA = field(default_factory=trustme.CA)
    client_ca: trustme.CA | None = None

    @property
    def cert_file(self) -> Path:
        return self.folder / "tls.crt"

    @property
    def key_file(self) -> Path:
        return self.folder / "tls.key"

    @property
    def client_ca_file(self) -> Path:
        return self.folder / "client-ca.crt"

    @property
    def token_file(self) -> Path:
        return self.folder / "tokens"

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, *, expires: dt.datetime | None = None) -> trustme.LeafCert:
        """Write a new certificate of the authority; also after the server has started."""
        made = self.ca.issue_cert("localhost", "127.0.0.1", "::1", not_before=LONG_AGO, not_after=expires)
        write_secret(self.cert_file, chain_of(made))
        write_secret(self.key_file, made.private_key_pem.bytes())
        self.ca_file.write_bytes(self.ca.cert_pem.bytes())
        return made

    def trust_clients_of(self, ca: trustme.CA) -> None:
        self.client_ca = ca
        self.client_ca_file.write_bytes(ca.cert_pem.bytes())

    def tls(self) -> ServerTls:
        asked = None if self.client_ca is None else self.client_ca_file
        return ServerTls(setting="listen.tls", cert_file=self.cert_file, key_file=self.key_file, client_ca_file=asked)

    def tokens(self, text: str) -> Tokens:
        write_secret(self.token_file, text.encode())
        return Tokens(self.token_file, setting="listen.token_file")


@dataclass(frozen=True, kw_only=True)
class Client:
    """What a client trusts and shows.

    ``highest`` is the latest version of TLS that it speaks, and may only lower what HTTP clients speak: gRPC has no such option.
    """

    trusts: trustme.CA | None = None
    shows: trustme.LeafCert | None = None
    highest: ssl.TLSVersion | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.trusts is not None:
            self.trusts.configure_trust(context)
        if self.shows is not None:
            self.shows.configure_cert(context)
        if self.highest is not None:
            context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else OpenSSL itself would not speak what is old
            context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            context.maximum_version = self.highest
        return context

    def channel(self, port: int) -> grpc.Channel:
        options = [("grpc.max_send_message_length", -1)]
        if self.trusts is None:
            return grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        key, chain = (None, None) if self.shows is None else (self.shows.private_key_pem.bytes(), chain_of(self.shows))
        credentials = grpc.ssl_channel_credentials(self.trusts.cert_pem.bytes(), key, chain)
        return grpc.secure_channel(f"127.0.0.1:{port}", credentials, options=options)

    def call(self, port: int, message: bytes, method: str = TRACES) -> Called:
        """Make one gRPC call."""
        with self.channel(port) as channel:
            export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method, None, None)
            try:
                body, ended = export.with_call(message, timeout=PATIENCE_SECONDS, metadata=self.headers)
            except grpc.RpcError as error:
                trailers = {each.key: each.value for each in error.trailing_metadata() or ()}
                return Called(code=error.code().name, details=error.details() or "", body=b"", trailers=trailers)
            return Called(code=ended.code().name, details="", body=body, trailers={})

    def ask(self, port: int, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        """Send one HTTP request; raises OSError if there is no connection."""
        connection = (
            http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
            if self.trusts is None
            else http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS, context=self.context())
        )
        sent = {**{name.replace("_", "-"): value for name, value in headers.items()}, **dict(self.headers)}
        try:
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            return Reply(status=response.status, headers=dict(response.getheaders()), body=response.read())
        finally:
            connection.close()

    def post(self, port: int, body: bytes, content_type: str = PROTOBUF) -> Reply:
        return self.ask(port, "POST", "/v1/traces", body, Content_Type=content_type)


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)
