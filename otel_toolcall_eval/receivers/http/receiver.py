"""Serves OTLP over HTTP, protobuf and JSON, and the pages beside it.

Decoding holds the interpreter's lock, so a second thread makes nothing faster. Handing a body to another thread costs 0.1 ms: a fifth of a
request of ten spans, 2 % of one of 512. So bodies up to 256 KiB (3 ms in protobuf, 10 ms in JSON) are decoded on the event loop. Larger
ones would keep health checks waiting; they go to one decoding thread, which also bounds the memory that decoding takes.
Threads: the receiver's event loop, except where noted.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from otel_toolcall_eval.otlp.replies import HTTP_PATHS, Encoding, Signal
from otel_toolcall_eval.receivers.http.answers import (
    HttpAnswers,
    HttpResponse,
    MethodError,
    NotFoundError,
    UnsupportedMediaError,
    answer_of,
)
from otel_toolcall_eval.receivers.http.body import BodyReader
from otel_toolcall_eval.receivers.http.connection import HttpLimits
from otel_toolcall_eval.receivers.http.listener import HttpListener
from otel_toolcall_eval.receivers.http.origins import Cors, Hosts
from otel_toolcall_eval.receivers.http.page_access import SITE_HEADERS, PageAccess
from otel_toolcall_eval.receivers.http.pages import LOCAL_PATHS, may_see
from otel_toolcall_eval.receivers.intake import waiting_for
from otel_toolcall_eval.receivers.listening import ListenOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from otel_toolcall_eval.engine.work_items import PendingResponse
    from otel_toolcall_eval.receivers.http.pages import PageSource, StatusPages
    from otel_toolcall_eval.receivers.intake import OtlpIntake, RejectionCounter
    from otel_toolcall_eval.receivers.tokens import Tokens


_INLINE_BYTES = 256 << 10
_PAGE_THREADS = 2
_IN_LOOP = frozenset({"/livez"})  # takes no time, and must not wait behind slow pages: the prober would take us for dead
_SIGNALS = {path: signal for signal, path in HTTP_PATHS.items()}
_OPEN_PATHS = frozenset({"/livez", "/readyz"})  # probes have no token; these pages name components at most
_TRANSPORTS = {Encoding.PROTOBUF: "http/protobuf", Encoding.JSON: "http/json", None: "http"}
_PACKED = {"": False, "identity": False, "gzip": True, "x-gzip": True}


class HttpReceiver(HttpListener):
    """An HTTP server for OTLP. Start it once, stop it as often as you like; both may be called from any thread."""

    def __init__(
        self,
        *,
        intake: OtlpIntake,
        refused: RejectionCounter,
        listen: ListenOptions | None = None,
        limits: HttpLimits | None = None,
        pages: Mapping[str, PageSource] | None = None,
        site: StatusPages | None = None,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            intake: takes the requests.
            refused: counts the requests that are rejected.
            listen: where, and whom it admits; without it, any free port of this machine.
            limits: without it, the defaults.
            pages: path to page, for GET: ``/livez``, ``/readyz``, ``/metrics`` and others.
            site: pages for people; without it, there are none.
        """
        listen, limits = listen or ListenOptions(port_option="--http"), limits or HttpLimits()
        bodies = BodyReader(
            max_body_bytes=limits.max_message_bytes, max_pending_bytes=limits.max_pending_bytes, body_seconds=limits.body_seconds
        )

        def service() -> HttpService:
            gate = None if site is None else PageAccess(site, tokens=listen.tokens, port=self.port, secure=listen.tls is not None)
            return HttpService(
                intake=intake,
                refused=refused,
                bodies=bodies,
                pages=dict(pages or {}),
                hosts=Hosts(listen.host, listen.allowed_hosts),
                tokens=listen.tokens,
                cors=Cors(listen.allowed_origins),
                gate=gate,
            )

        super().__init__(service, listen=listen, limits=limits, thread_name="otlp-http", refused=partial(refused, "http"))


class HttpService(HttpAnswers):
    """Routes requests, one at a time for each connection."""

    def __init__(
        self,
        *,
        intake: OtlpIntake,
        refused: RejectionCounter,
        bodies: BodyReader,
        pages: Mapping[str, PageSource],
        hosts: Hosts,
        tokens: Tokens | None,
        cors: Cors,
        gate: PageAccess | None = None,
    ) -> None:
        """Take what a receiver was given; start no thread yet."""
        super().__init__(refused=refused, hosts=hosts, tokens=tokens, open_paths=_OPEN_PATHS)
        self._intake = intake
        self._bodies = bodies
        self._pages = pages
        self._decoding = ThreadPoolExecutor(1, thread_name_prefix="otlp-http-decode")
        self._rendering = ThreadPoolExecutor(_PAGE_THREADS, thread_name_prefix="otlp-http-page")
        self._cors = cors
        self._gate = gate

    def close(self) -> None:
        """End the threads."""
        self._decoding.shutdown(wait=True, cancel_futures=True)
        self._rendering.shutdown(wait=True, cancel_futures=True)
        if self._gate is not None:
            self._gate.close()

    def transport(self, encoding: Encoding | None) -> str:
        """Return the name under which requests are counted."""
        return _TRANSPORTS[encoding]

    def needs_own_name(self, request: web.BaseRequest) -> bool:
        """Return whether a request has to use a name of ours; see ``origins``."""
        if request.path not in _SIGNALS:
            by_address = request.path.startswith(LOCAL_PATHS) or (self._tokens is None and self._is_gated(request))
            return self._hosts.guards_all or by_address
        origin = request.headers.get("Origin")
        return self._hosts.guards_all and origin is not None and not self._cors.allows(origin)

    def before_tokens(self, request: web.BaseRequest) -> HttpResponse | None:
        """Answer the question that a browser asks before it sends OTLP; it comes without a token."""
        if request.method != "OPTIONS" or request.path not in _SIGNALS:
            return None
        found = self._cors.preflight(request.headers.get("Origin"), request.headers.get("Access-Control-Request-Method"))
        return None if found is None else HttpResponse(status=204, body=b"", headers=found)

    def needs_token(self, request: web.BaseRequest) -> bool:
        """Leave the site to its gate, which knows sessions, too."""
        return super().needs_token(request) and not self._is_gated(request)

    def more_headers(self, request: web.BaseRequest) -> Mapping[str, str]:
        """Return what browsers are told."""
        if self._is_gated(request):
            return SITE_HEADERS
        return self._cors.headers(request.headers.get("Origin")) if request.path in _SIGNALS else {}

    async def route(self, request: web.BaseRequest, encoding: Encoding | None) -> HttpResponse:
        """Answer a request whose sender may send it."""
        if self._gate is not None and self._gate.serves(request):
            return await self._gate.answer(request)
        if request.path in self._pages and may_see(request.path, request.remote):
            return await self._page(request)
        return await self._export(request, encoding)

    def _is_gated(self, request: web.BaseRequest) -> bool:
        return self._gate is not None and self._gate.serves(request)

    async def _page(self, request: web.BaseRequest) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            raise MethodError(where=request.path, allowed="GET, HEAD")
        render = self._pages[request.path]
        if request.path in _IN_LOOP:
            return answer_of(render(request.headers.get("Accept", "")))
        loop = asyncio.get_running_loop()
        page = await loop.run_in_executor(self._rendering, render, request.headers.get("Accept", ""))
        return answer_of(page)

    async def _export(self, request: web.BaseRequest, encoding: Encoding | None) -> HttpResponse:
        signal = _SIGNALS.get(request.path)
        if signal is None:
            raise NotFoundError(where="request", what="nothing is served at this path", fix="send traces to /v1/traces")
        if request.method != "POST":
            raise MethodError(where=request.path, allowed="POST")
        if encoding is None:
            fix = f"send {' or '.join(Encoding)}"
            raise UnsupportedMediaError(where="Content-Type", what="not a media type of OTLP", fix=fix)
        packed = _PACKED.get(",".join(request.headers.getall("Content-Encoding", ())).strip().lower())  # repeated, it is one list
        if packed is None:
            raise UnsupportedMediaError(where="Content-Encoding", what="this compression is not supported", fix="use gzip or none")
        body = await self._bodies.read(request, packed=packed)
        try:
            reply, receipt = await self._take(body.take(), encoding, signal)
        finally:
            body.release()
        await waiting_for(receipt, _TRANSPORTS[encoding])
        return HttpResponse(body=reply, content_type=encoding.value)

    async def _take(self, body: bytes, encoding: Encoding, signal: Signal) -> tuple[bytes, PendingResponse | None]:
        take = partial(self._intake.take, body, encoding, signal, transport=_TRANSPORTS[encoding])
        if len(body) <= _INLINE_BYTES or not self._intake.wants(signal):
            return take()
        return await asyncio.get_running_loop().run_in_executor(self._decoding, take)
