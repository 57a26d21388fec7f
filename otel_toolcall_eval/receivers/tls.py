"""TLS of a listener, from files that are renewed while it runs. TLS 1.2 and later.

Each new connection gets the certificate, the key and the client authorities of its moment; those that are open go on with theirs. They
are always a new ``SSLContext``: one that has loaded an authority can't forget it, and a client could resume a session with a certificate
that the new authorities would not accept.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from otel_toolcall_eval.model.errors import Problem, SettingsError
from otel_toolcall_eval.settings.reloading_file import ReloadingValue, readable_by_others

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_logger = logging.getLogger(__name__)

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN ([A-Z0-9]+ )?PRIVATE KEY-----")
_ENCRYPTED = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED", re.MULTILINE)
# The last is said of a key of another kind than the certificate's: that kind has none.
_MISMATCHES = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
# How the public key of a certificate begins: algorithm and, for elliptic curves, the curve. Source: RFC 3279, RFC 5480.
_EC = bytes.fromhex("06072a8648ce3d0201")
_KEYS_OF_GRPC = (
    bytes.fromhex("06092a864886f70d010101"),
    _EC + bytes.fromhex("06082a8648ce3d030107"),
    _EC + bytes.fromhex("06052b81040022"),
)
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which Python's ssl has no name for. Source: openssl/x509_vfy.h
_HANDSHAKE_TURNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What one version of the files gives.

    Attributes:
        context: for new connections, with all that follows.
        chain: the certificate and those above it, in PEM form.
        key: its private key.
        client_ca: authorities whose certificates clients have to show; None asks for none.
        expires: Unix time, in seconds; None if nobody could tell.
        complaint: why clients will not accept the certificate, whatever the time is; None if they will.
    """

    context: ssl.SSLContext
    chain: bytes = field(repr=False)
    key: bytes = field(repr=False)
    client_ca: bytes | None
    expires: float | None
    complaint: str | None


class ServerTls:
    """The TLS of a listener. ``refresh`` belongs to one thread; the rest may be used by any."""

    def __init__(
        self, *, setting: str, cert_file: Path, key_file: Path, client_ca_file: Path | None = None, for_grpc: bool = False
    ) -> None:
        """Read the files.

        Args:
            setting: where they were named; problems are reported below it.
            cert_file: the certificate, followed by those between it and the authority that clients know.
            key_file: its private key, not encrypted.
            client_ca_file: authorities whose certificates clients have to show; None asks for none.
            for_grpc: refuse keys that gRPC can't use, or it would listen and let nobody in.

        Raises:
            SettingsError: a file can't be read or used, or they do not belong together.
        """
        self._files = {f"{setting}.cert_file": cert_file, f"{setting}.key_file": key_file}
        if client_ca_file is not None:
            self._files[f"{setting}.client_ca_file"] = client_ca_file
        self._for_grpc = for_grpc
        self._paths = list(self._files.values())
        self._names = [f"{name}: {path}" for name, path in self._files.items()]
        self._renewed = ReloadingValue(self._files, self._make)
        self._expired_said = self._expired()

    @property
    def material(self) -> Material:
        """Return what is in force."""
        return self._renewed.value

    @property
    def asks_clients(self) -> bool:
        """Tell whether clients have to show a certificate; does not change."""
        return self.material.client_ca is not None

    @property
    def warnings(self) -> Sequence[Problem]:
        """Return what the operator should know about the files."""
        key_setting, key_path = list(self._files.items())[1]
        return [*readable_by_others(key_setting, key_path), *self._faults()]

    def asyncio_context(self, *, failed: Callable[[str], None]) -> ssl.SSLContext:
        """Return a context for a server of asyncio; each connection gets what is in force when it comes.

        Args:
            failed: hears OpenSSL's word for why a handshake failed, such as ``TLSV1_ALERT_UNKNOWN_CA``; called on the server's loop.
        """
        return _CurrentContext(self, failed)

    def refresh(self) -> None:
        """Read the files again if they have changed; broken ones leave the old in force. Says so once when the certificate expires."""
        changed = self._renewed.refresh()
        if changed or self._expired() != self._expired_said:
            self._expired_said = self._expired()
            for fault in self._faults():
                _logger.warning("%s", fault)

    def _expired(self) -> bool:
        expires = self.material.expires
        return expires is not None and expires <= time.time()

    def _faults(self) -> list[Problem]:
        found, where = self.material, self._names[0]
        faults = []
        if found.complaint is not None:
            faults.append(Problem(where=where, what=f"clients will not accept the certificate ({found.complaint})", fix="renew it"))
        if found.expires is not None and self._expired():
            when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(found.expires))
            what = f"the certificate expired on {when}, and clients will not accept it"
            faults.append(Problem(where=where, what=what, fix="renew it; a new file is taken without a restart"))
        return faults

    def _make(self, contents: Sequence[bytes]) -> Material:
        chain, key = contents[0], contents[1]
        client_ca = contents[2] if len(contents) > 2 else None  # noqa: PLR2004 - the third file
        certificate = _CERTIFICATE.search(chain)
        if certificate is None:
            raise SettingsError(where=self._names[0], what="the file holds no certificate in PEM form", fix="name the certificate")
        if _ENCRYPTED.search(key):
            fix = "decrypt it, as with `openssl pkey -in KEY -out PLAIN_KEY`, and let only our user read it"
            raise SettingsError(where=self._names[1], what="the private key is encrypted", fix=fix)
        if not _KEY.search(key):
            raise SettingsError(where=self._names[1], what="the file holds no private key in PEM form", fix="name the private key")
        context = _server_context()
        self._load(context)
        if self._for_grpc and not _grpc_can_use(certificate[0]):
            what = "gRPC can't use a certificate with this kind of key"
            raise SettingsError(where=self._names[0], what=what, fix="make one with a key of RSA, P-256 or P-384")
        if client_ca is not None:
            self._require_clients(context, client_ca)
        expires, complaint = self._as_clients_see_it(chain)
        return Material(context=context, chain=chain, key=key, client_ca=client_ca, expires=expires, complaint=complaint)

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            # With a password of none, or OpenSSL would ask for one at the terminal.
            context.load_cert_chain(self._paths[0], self._paths[1], password="")
        except ssl.SSLError as error:
            if error.reason in _MISMATCHES:
                what = f"the key does not belong to the certificate in {self._paths[0]}"
                raise SettingsError(where=self._names[1], what=what, fix="name the key that the certificate was made for") from error
            what = f"OpenSSL can't use this certificate and its key ({error.reason or 'no reason given'})"
            raise SettingsError(where=self._names[0], what=what, fix="make them anew") from error
        except OSError as error:  # replaced since it was read
            what = f"the file can't be read ({error.strerror})"
            raise SettingsError(where=self._names[0], what=what, fix="check its name and permissions") from error

    def _require_clients(self, context: ssl.SSLContext, client_ca: bytes) -> None:
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            what = "the file holds no certificate in PEM form that OpenSSL can use"
            raise SettingsError(where=self._names[2], what=what, fix="name the authority that signs the clients' certificates") from error
        context.verify_mode = ssl.CERT_REQUIRED

    def _as_clients_see_it(self, chain: bytes) -> tuple[float | None, str | None]:
        """Return when the certificate expires, and why clients refuse it, from a handshake with ourselves in memory.

        Python's ssl reads a certificate only when a peer shows it. The client trusts the certificate itself, and does not look at the time.
        """
        server, client = _server_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._load(server)
        client.check_hostname = False
        client.verify_flags |= ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
        try:
            client.load_verify_locations(cadata=chain.decode("ascii", "ignore"))
            shown = _handshake(server, client)
        except ssl.SSLCertVerificationError as error:
            return None, error.verify_message
        except ssl.SSLError as error:
            return None, error.reason or "the handshake fails"
        try:
            return ssl.cert_time_to_seconds(str(shown.get("notAfter"))), None
        except ValueError:  # a date that nobody writes
            return None, None


class _Handshake(ssl.SSLObject):
    """A connection's TLS that says why its handshake failed; asyncio tells nobody."""

    failed: Callable[[str], None] | None = None

    def do_handshake(self) -> None:
        """Go on with the handshake."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if self.failed is not None:
                self.failed(error.reason or type(error).__name__)
            raise


class _CurrentContext(ssl.SSLContext):
    """Hands every new connection of asyncio to the context that is in force. Its own settings are never used."""

    _tls: ServerTls
    _failed: Callable[[str], None]

    def __new__(cls, tls: ServerTls, failed: Callable[[str], None]) -> Self:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._tls = tls
        made._failed = failed
        return made

    def __init__(self, _tls: ServerTls, _failed: Callable[[str], None]) -> None:
        """Do nothing more; ``SSLContext`` is made by ``__new__``."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the standard library's signature
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin TLS with one client."""
        made = self._tls.material.context.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if isinstance(made, _Handshake):
            made.failed = self._failed
        return made


def _grpc_can_use(certificate: bytes) -> bool:
    """Tell whether gRPC's TLS can use the key of a certificate in PEM form that OpenSSL could read. It knows no Ed25519 and no P-521."""
    try:
        der = ssl.PEM_cert_to_DER_cert(certificate.decode("ascii", "ignore"))
    except ValueError:  # OpenSSL passes over what Python does not
        return True
    return any(beginning in der for beginning in _KEYS_OF_GRPC)


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # each costs the server a handshake, and nobody needs one
    context.set_alpn_protocols(["http/1.1"])
    context.sslobject_class = _Handshake
    return context


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, object]:
    """Return what the client sees of the server's certificate, in the form of ``SSLSocket.getpeercert``."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here, there = server.wrap_bio(to_server, to_client, server_side=True), client.wrap_bio(to_client, to_server)
    for _ in range(_HANDSHAKE_TURNS):
        for end in (there, here):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return dict(there.getpeercert() or {})
