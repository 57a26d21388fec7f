"""Answers HTTP requests: counts rejections, finishes requests at shutdown, and never repeats what was sent.

The services decide what is served at which path: ``HttpService`` for OTLP and pages, ``ControlService`` for the control listener.
Threads: the receiver's event loop.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from aiohttp import HttpVersion10, HttpVersion11, web

from otel_toolcall_eval.model.errors import IntakeError
from otel_toolcall_eval.otlp.replies import Encoding, error_reply, status_reply
from otel_toolcall_eval.receivers.http.connection import MAX_HEADERS, SERVER_HEADER, Connection
from otel_toolcall_eval.receivers.intake import reason_of
from otel_toolcall_eval.receivers.tokens import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.receivers.http.origins import Hosts
    from otel_toolcall_eval.receivers.http.pages import Page
    from otel_toolcall_eval.receivers.intake import RejectionCounter
    from otel_toolcall_eval.receivers.tokens import Tokens

_logger = logging.getLogger(__name__)

_VERSIONS = frozenset({HttpVersion10, HttpVersion11})
_ENCODINGS = {encoding.value: encoding for encoding in Encoding}


class UnsupportedMediaError(IntakeError):
    """A media type or content encoding that is not served: 415."""

    http_status = 415


class NotFoundError(IntakeError):
    """No such path."""

    http_status = 404
    grpc_code = "NOT_FOUND"


class MethodError(IntakeError):
    """The path does not take this method: 405.

    Attributes:
        allowed: the methods that it takes.
    """

    http_status = 405
    grpc_code = "UNIMPLEMENTED"

    def __init__(self, *, where: str, allowed: str) -> None:
        """Say what is allowed."""
        super().__init__(where=where, what="the method is not allowed", fix=f"use {allowed.partition(',')[0]}")
        self.allowed = allowed


class _VersionError(IntakeError):
    """Another version than HTTP/1.0 and 1.1, written as if it were one of them; the parser lets 0.9 and 2.0 through."""

    http_status = 505


class _HeadersError(IntakeError):
    """More headers than anyone needs; aiohttp counts them only in its later versions."""

    http_status = 431


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What is sent back."""

    body: bytes
    status: int = 200
    content_type: str = Encoding.JSON.value
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpAnswers:
    """Base of the services: ``route`` says what is served."""

    def __init__(self, *, refused: RejectionCounter, hosts: Hosts, tokens: Tokens | None, open_paths: frozenset[str] = frozenset()) -> None:
        """Take what every service has.

        Args:
            refused: counts the requests that were not taken.
            hosts: the names of the listener, which requests have to use.
            tokens: requests need one of them; without it, none.
            open_paths: need none in any case, and may use any name.
        """
        self._refused = refused
        self._hosts = hosts
        self._tokens = tokens
        self._open_paths = open_paths
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
        """End the threads, if the service has any."""

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

    async def route(self, request: web.BaseRequest, encoding: Encoding | None) -> HttpResponse:
        """Answer a request whose sender may send it; ``encoding`` is None for any other media type. Raises IntakeError."""
        raise NotImplementedError

    def transport(self, encoding: Encoding | None) -> str:
        """Return the name under which requests are counted."""
        raise NotImplementedError

    def needs_own_name(self, request: web.BaseRequest) -> bool:
        """Tell whether a request has to be made to a name of ours."""
        del request
        return self._hosts.guards_all

    def needs_token(self, request: web.BaseRequest) -> bool:
        """Tell whether a request needs a token in its headers, where the listener has tokens."""
        return request.path not in self._open_paths

    def before_tokens(self, request: web.BaseRequest) -> HttpResponse | None:
        """Answer what browsers ask without a token; None for all else."""
        del request
        return None

    def more_headers(self, request: web.BaseRequest) -> Mapping[str, str]:
        """Return headers that every answer gets, refusals too."""
        del request
        return {}

    async def _answer(self, request: web.BaseRequest) -> HttpResponse:
        encoding = _ENCODINGS.get(request.content_type)
        try:
            answer = await self._guarded(request, encoding)
        except IntakeError as error:
            self._refused(self.transport(encoding), reason_of(error))
            answer = _refusal(encoding or Encoding.JSON, error)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the connection, nor show what was sent
            _logger.error("a request failed inside the receiver", extra={"error_type": type(error).__qualname__})  # noqa: TRY400 - nor log it
            self._refused(self.transport(encoding), "internal")
            body = status_reply(encoding or Encoding.JSON, code="INTERNAL", message="internal error")
            answer = HttpResponse(status=500, body=body, content_type=(encoding or Encoding.JSON).value)
        more = self.more_headers(request)
        return replace(answer, headers={**answer.headers, **more}) if more else answer

    async def _guarded(self, request: web.BaseRequest, encoding: Encoding | None) -> HttpResponse:
        if request.version not in _VERSIONS:
            raise _VersionError(where="request", what="this version of HTTP is not spoken here", fix="use HTTP/1.1")
        if len(request.headers) > MAX_HEADERS:
            raise _HeadersError(where="request", what=f"more than {MAX_HEADERS} headers", fix="send fewer headers")
        if request.path not in self._open_paths and self.needs_own_name(request):
            self._hosts.check(request)
        early = self.before_tokens(request)
        if early is not None:
            return early
        if self._tokens is not None and self.needs_token(request):
            self._tokens.check(request.headers.get("Authorization"))
        return await self.route(request, encoding)


def answer_of(page: Page) -> HttpResponse:
    """Return the answer that a page is."""
    return HttpResponse(status=page.status, body=page.body, content_type=page.content_type, headers=page.headers)


def _refusal(encoding: Encoding, error: IntakeError) -> HttpResponse:
    headers: dict[str, str] = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, MethodError):
        headers["Allow"] = error.allowed
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    return HttpResponse(status=error.http_status, body=error_reply(encoding, error), content_type=encoding.value, headers=headers)
