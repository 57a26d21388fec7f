"""Serves OTLP over HTTP, protobuf and JSON, and the pages beside it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from otel_toolcall_eval.receivers.http.body import BodyReader
from otel_toolcall_eval.receivers.http.cors import Cors
from otel_toolcall_eval.receivers.http.hosts import Hosts
from otel_toolcall_eval.receivers.http.listener import MOST_CONNECTIONS, HttpListener
from otel_toolcall_eval.receivers.http.page_access import PageAccess
from otel_toolcall_eval.receivers.http.service import HttpService
from otel_toolcall_eval.receivers.ports import DEFAULT_MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.receivers.http.pages import PageSource, StatusPages
    from otel_toolcall_eval.receivers.intake import OtlpIntake
    from otel_toolcall_eval.receivers.ports import Refused
    from otel_toolcall_eval.receivers.tls import ServerTls
    from otel_toolcall_eval.receivers.tokens import Tokens


class HttpReceiver(HttpListener):
    """An HTTP server for OTLP. Start it once, stop it as often as you like; both may be called from any thread."""

    def __init__(
        self,
        *,
        intake: OtlpIntake,
        refused: Refused,
        pages: Mapping[str, PageSource] | None = None,
        site: StatusPages | None = None,
        host: str = "127.0.0.1",
        port: int = 4318,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        max_pending_bytes: int = 4 * DEFAULT_MAX_MESSAGE_BYTES,
        head_seconds: float = 10.0,
        body_seconds: float = 30.0,
        idle_seconds: float = 75.0,
        max_connections: int = MOST_CONNECTIONS,
        port_option: str = "--http-port",
        allowed_hosts: frozenset[str] = frozenset(),
        tls: ServerTls | None = None,
        tokens: Tokens | None = None,
        allowed_origins: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            intake: takes the requests.
            refused: counts the requests that were not taken.
            pages: path to page, for GET: ``/livez``, ``/readyz``, ``/metrics`` and others.
            site: pages for people; without it, there are none.
            host: address to listen on.
            port: 0 takes any free one.
            max_message_bytes: largest body, packed and unpacked.
            max_pending_bytes: bytes of all bodies that are held at the same time; beyond, senders are asked to resend.
            head_seconds: time for the headers of a request.
            body_seconds: time for its body, and for the client to read the answer.
            idle_seconds: how long a connection may stay unused.
            max_connections: open at a time; beyond, one that keeps us waiting is closed, or the new one is asked to come again.
            port_option: what the reader of an error about the port is told to change.
            allowed_hosts: further names under which requests are answered, see ``http_hosts``.
            tls: without it, nothing is encrypted.
            tokens: every request but those for health needs one of them; without it, none does.
            allowed_origins: web origins whose scripts may send; ``*`` is any, none is none.
        """
        bodies = BodyReader(max_body_bytes=max_message_bytes, max_pending_bytes=max_pending_bytes, body_seconds=body_seconds)

        def service() -> HttpService:
            cors = Cors(allowed_origins)
            hosts = Hosts(host, allowed_hosts)
            shown = dict(pages or {})
            gate = None if site is None else PageAccess(site, tokens=tokens, port=self.port, secure=tls is not None)
            return HttpService(intake=intake, refused=refused, bodies=bodies, pages=shown, hosts=hosts, tokens=tokens, cors=cors, gate=gate)

        super().__init__(
            service,
            host=host,
            port=port,
            port_option=port_option,
            thread_name="otlp-http",
            refused=partial(refused, "http"),
            tls=tls,
            head_seconds=head_seconds,
            answer_seconds=body_seconds,
            idle_seconds=idle_seconds,
            max_connections=max_connections,
        )
