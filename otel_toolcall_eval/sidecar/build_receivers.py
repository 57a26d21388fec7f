"""Builds the listeners, and the certificates and tokens that protect them, from their settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.criteria import BoundCriteria
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.receivers.grpc.receiver import GrpcLimits, GrpcReceiver
from otel_toolcall_eval.receivers.http.connection import HttpLimits
from otel_toolcall_eval.receivers.http.receiver import HttpReceiver
from otel_toolcall_eval.receivers.listening import ListenOptions
from otel_toolcall_eval.receivers.tls import ServerTls
from otel_toolcall_eval.receivers.tokens import Tokens
from otel_toolcall_eval.sidecar.admin.control import ControlListener

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.engine.worker import Worker
    from otel_toolcall_eval.model.errors import Problem
    from otel_toolcall_eval.receivers.http.pages import PageSource, StatusPages
    from otel_toolcall_eval.receivers.intake import OtlpIntake
    from otel_toolcall_eval.settings.service import Listen, Listener, Settings, TlsFiles, TokenFile

_PENDING_REQUESTS = 4
"""Requests of full size that a listener holds at the same time. Smaller ones are as many as fit into the same bytes."""


class Protection:
    """Certificates and tokens of all listeners. Files that several listeners share are read, and complained about, once."""

    def __init__(self, listen: Listen) -> None:
        """Read all files.

        Raises:
            SettingsError: files can't be used; with all that is wrong.
        """
        self._tls: dict[TlsFiles, ServerTls] = {}
        self._tokens: dict[TokenFile, Tokens] = {}
        problems: list[Problem] = []
        listeners = listen.listeners.values()
        for files in dict.fromkeys(listener.tls for listener in listeners if listener.tls is not None):
            try:
                self._tls[files] = ServerTls(
                    setting=files.setting,
                    cert_file=files.cert_file,
                    key_file=files.key_file,
                    client_ca_file=files.client_ca_file,
                    for_grpc=files == listen.grpc.tls,
                )
            except SettingsError as error:
                problems += error.problems
        for tokens in dict.fromkeys(listener.tokens for listener in listeners if listener.tokens is not None):
            try:
                self._tokens[tokens] = Tokens(tokens.path, setting=tokens.setting)
            except SettingsError as error:
                problems += error.problems
        if problems:
            raise SettingsError.of(problems)

    @property
    def warnings(self) -> Sequence[Problem]:
        """Return what the operator should know about the files."""
        return [warning for part in self._parts for warning in part.warnings]

    def tls_of(self, listener: Listener) -> ServerTls | None:
        """Return the TLS of a listener; None if it has none."""
        return None if listener.tls is None else self._tls[listener.tls]

    def tokens_of(self, listener: Listener) -> Tokens | None:
        """Return the tokens of a listener; None if it asks for none."""
        return None if listener.tokens is None else self._tokens[listener.tokens]

    def refresh(self) -> None:
        """Look at all files, and take those that were replaced. One thread."""
        for part in self._parts:
            part.refresh()

    @property
    def _parts(self) -> Sequence[ServerTls | Tokens]:
        return [*self._tls.values(), *self._tokens.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receivers:
    """All that listens; ``control`` is None if nobody asked for it."""

    protection: Protection
    grpc: GrpcReceiver
    http: HttpReceiver
    control: ControlListener | None

    @property
    def listening(self) -> Sequence[GrpcReceiver | HttpReceiver | ControlListener]:
        """Return all of them, in the order of their start."""
        return [self.grpc, self.http, *([] if self.control is None else [self.control])]


def build_receivers(
    settings: Settings, *, worker: Worker, intake: OtlpIntake, pages: Mapping[str, PageSource], site: StatusPages | None = None
) -> Receivers:
    """Build all that listens; nothing does yet.

    Raises:
        SettingsError: a file of certificates or tokens can't be used.
    """
    listen, max_message_bytes = settings.listen, settings.intake.max_request_bytes
    max_pending_bytes = _PENDING_REQUESTS * max_message_bytes
    protection = Protection(listen)

    def options(listener: Listener, port_option: str) -> ListenOptions:
        return ListenOptions(
            host=listener.address.host,
            port=listener.address.port,
            port_option=port_option,
            tls=protection.tls_of(listener),
            tokens=protection.tokens_of(listener),
            allowed_hosts=listen.allowed_hosts,
            allowed_origins=listen.allowed_origins,
        )

    return Receivers(
        protection=protection,
        grpc=GrpcReceiver(
            intake=intake,
            refused=worker.refuse,
            listen=options(listen.grpc, "--grpc"),
            limits=GrpcLimits(max_message_bytes=max_message_bytes, max_pending_bytes=max_pending_bytes),
        ),
        http=HttpReceiver(
            intake=intake,
            refused=worker.refuse,
            listen=options(listen.http, "--http"),
            limits=HttpLimits(max_message_bytes=max_message_bytes, max_pending_bytes=max_pending_bytes),
            pages=pages,
            site=site,
        ),
        control=None if listen.control is None else _control(options(listen.control, "--control"), worker),
    )


def _control(listen: ListenOptions, worker: Worker) -> ControlListener:
    def known() -> frozenset[str]:
        return frozenset(name for found in worker.pipeline.criteria for name in (found.name, *found.aliases))

    def bind(trace_id: bytes, names: Sequence[str]) -> None:
        worker.bind(trace_id, BoundCriteria(names=tuple(names)))

    return ControlListener(bind=bind, known=known, refused=worker.refuse, listen=listen)
