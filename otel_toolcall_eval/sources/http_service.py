"""Answers the requests of an HTTP receiver: which path takes what, and in which encoding it is answered.

Decoding holds the interpreter's lock, so a second thread makes nothing faster; handing a body over costs 0.1 ms, a fifth of a request
of ten spans, 2 % of one of 512. So bodies up to 256 KiB (3 ms in protobuf, 10 ms in JSON) are decoded on the loop, and larger ones,
which would keep health checks waiting, on one decoding thread, which also bounds the memory that decoding takes.
Threads: the receiver's event loop, except where said.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from aiohttp import web

from otel_toolcall_eval.errors import IntakeError
from otel_toolcall_eval.sources.http_connection import MAX_HEADERS, SERVER_HEADER, Connection
from otel_toolcall_eval.sources.http_pages import may_see
from otel_toolcall_eval.sources.sink import reason_of
from otel_toolcall_eval.wire.replies import Encoding, Signal, error_reply, status_reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.sources.http_body import BodyReader
    from otel_toolcall_eval.sources.http_pages import PageSource
    from otel_toolcall_eval.sources.otlp_intake import OtlpIntake
    from otel_toolcall_eval.sources.sink import Refused

_logger = logging.getLogger(__name__)

_INLINE_BYTES = 256 << 10
_PAGE_THREADS = 2
_SIGNALS = {"/v1/traces": Signal.TRACES, "/v1/metrics": Signal.METRICS, "/v1/logs": Signal.LOGS}
_ENCODINGS = {encoding.value: encoding for encoding in Encoding}
_TRANSPORTS = {Encoding.PROTOBUF: "http/protobuf", Encoding.JSON: "http/json", None: "http"}
_PACKED = {"": False, "identity": False, "gzip": True, "x-gzip": True}


class _UnsupportedMediaError(IntakeError):
    """A media type or content encoding that OTLP doesn't have."""

    http_status = 415


class _NotFoundError(IntakeError):
    """No such path."""

    http_status = 404
    grpc_code = "NOT_FOUND"


class _HeadersError(IntakeError):
    """More headers than anyone needs; aiohttp counts them only in its later versions."""

    http_status = 431


class _MethodError(IntakeError):
    """The path does not take this method."""

    http_status = 405
    grpc_code = "UNIMPLEMENTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    body: bytes
    status: int = 200
    content_type: str = Encoding.JSON.value
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpService:
    """Routes requests, one at a time for each connection."""

    def __init__(
        self,
        *,
        intake: OtlpIntake,
        refused: Refused,
        bodies: BodyReader,
        pages: Mapping[str, PageSource],
    ) -> None:
        """Take what a receiver was given; start no thread yet."""
        self._intake = intake
        self._refused = refused
        self._bodies = bodies
        self._pages = pages
        self._decoding = ThreadPoolExecutor(1, thread_name_prefix="otlp-http-decode")
        self._rendering = ThreadPoolExecutor(_PAGE_THREADS, thread_name_prefix="otlp-http-page")
        self._under_way = 0
        self._nothing_under_way = asyncio.Event()
        self._nothing_under_way.set()
        self._draining = False

    async def drain(self, grace_seconds: float) -> None:
        """Wait until no request is under way, at most ``grace_seconds``; connections are closed after their next answer."""
        self._draining = True
        try:
            async with asyncio.timeout(grace_seconds):
                await self._nothing_under_way.wait()
        except TimeoutError:
            _logger.warning("requests were cut at shutdown; raise shutdown_timeout", extra={"requests": self._under_way})

    def close(self) -> None:
        """End the threads."""
        self._decoding.shutdown(wait=True, cancel_futures=True)
        self._rendering.shutdown(wait=True, cancel_futures=True)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; never raises, but for a lost connection."""
        connection = cast("Connection", request.protocol)
        connection.serving(busy=True)
        self._under_way += 1
        self._nothing_under_way.clear()
        try:
            answer = await self._answer(request)
        finally:
            connection.serving(busy=False)
            self._under_way -= 1
            if not self._under_way:
                self._nothing_under_way.set()
        response = web.Response(
            body=answer.body,
            status=answer.status,
            headers={"Content-Type": answer.content_type, **SERVER_HEADER, **answer.headers},
        )
        if self._draining:
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> _Answer:
        encoding = _ENCODINGS.get(request.content_type)
        try:
            return await self._route(request, encoding)
        except IntakeError as error:
            self._refused(_TRANSPORTS[encoding], reason_of(error))
            return _refusal(encoding or Encoding.JSON, error, request.path)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the connection, nor show what was sent
            _logger.error("a request failed inside the receiver", extra={"error_type": type(error).__qualname__})  # noqa: TRY400 - nor log it
            self._refused(_TRANSPORTS[encoding], "internal")
            body = status_reply(encoding or Encoding.JSON, code="INTERNAL", message="internal error")
            return _Answer(status=500, body=body, content_type=(encoding or Encoding.JSON).value)

    async def _route(self, request: web.BaseRequest, encoding: Encoding | None) -> _Answer:
        if len(request.headers) > MAX_HEADERS:
            raise _HeadersError(where="request", what=f"more than {MAX_HEADERS} headers", fix="send fewer headers")
        if request.path in self._pages and may_see(request.path, request.remote):
            return await self._page(request)
        return await self._export(request, encoding)

    async def _page(self, request: web.BaseRequest) -> _Answer:
        if request.method not in {"GET", "HEAD"}:
            raise _MethodError(where=request.path, what="the method is not allowed", fix="use GET")
        render = self._pages[request.path]
        loop = asyncio.get_running_loop()
        page = await loop.run_in_executor(self._rendering, render, request.headers.get("Accept", ""))
        return _Answer(status=page.status, body=page.body, content_type=page.content_type)

    async def _export(self, request: web.BaseRequest, encoding: Encoding | None) -> _Answer:
        signal = _SIGNALS.get(request.path)
        if signal is None:
            raise _NotFoundError(where="request", what="nothing is served at this path", fix="send traces to /v1/traces")
        if request.method != "POST":
            raise _MethodError(where=request.path, what="the method is not allowed", fix="use POST")
        if encoding is None:
            fix = f"send {' or '.join(_ENCODINGS)}"
            raise _UnsupportedMediaError(where="Content-Type", what="not a media type of OTLP", fix=fix)
        packed = _PACKED.get(request.headers.get("Content-Encoding", "").strip().lower())
        if packed is None:
            raise _UnsupportedMediaError(where="Content-Encoding", what="this compression is not supported", fix="use gzip or none")
        body = await self._bodies.read(request, packed=packed)
        try:
            reply = await self._take(body.take(), encoding, signal)
        finally:
            body.release()
        return _Answer(body=reply, content_type=encoding.value)

    async def _take(self, body: bytes, encoding: Encoding, signal: Signal) -> bytes:
        take = partial(self._intake.take, body, encoding, signal, transport=_TRANSPORTS[encoding])
        if len(body) <= _INLINE_BYTES or not self._intake.wants(signal):
            return take()
        return await asyncio.get_running_loop().run_in_executor(self._decoding, take)


def _refusal(encoding: Encoding, error: IntakeError, path: str) -> _Answer:
    headers: dict[str, str] = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, _MethodError):
        headers["Allow"] = "POST" if path in _SIGNALS else "GET, HEAD"
    return _Answer(status=error.http_status, body=error_reply(encoding, error), content_type=encoding.value, headers=headers)
