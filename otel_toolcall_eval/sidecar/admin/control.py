"""The control listener: binds criteria to traces by their IDs, from outside.

``PUT /v1/traces/{trace_id}/criteria`` with ``{"criteria": ["name", ...]}``, or with the list, or one name, alone; 204 with nothing in it.
PUT, since repeating it changes nothing: the names are added to those that the trace has. There is no DELETE: a verdict can't be withdrawn.
There is no GET: each verdict names its criteria.
A request with an unknown name is rejected as a whole: a harness with a typo would otherwise wait for a verdict that never comes. Criteria
can be bound once they are loaded.
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import DecodeError, IntakeError
from otel_toolcall_eval.otlp.replies import Encoding
from otel_toolcall_eval.receivers.http.answers import HttpAnswers, HttpResponse, MethodError, NotFoundError, UnsupportedMediaError
from otel_toolcall_eval.receivers.http.body import BodyReader
from otel_toolcall_eval.receivers.http.connection import HttpLimits
from otel_toolcall_eval.receivers.http.listener import HttpListener
from otel_toolcall_eval.receivers.http.origins import Hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from aiohttp import web

    from otel_toolcall_eval.receivers.intake import RejectionCounter
    from otel_toolcall_eval.receivers.listening import ListenOptions
    from otel_toolcall_eval.receivers.tokens import Tokens

TRANSPORT = "control"

MAX_CONNECTIONS = 32
"""Open at a time: test harnesses, not every sender."""

MAX_BODY_BYTES = 64 << 10
MAX_NAMES = 100
MAX_NAME_CHARACTERS = 256
_PENDING_BODIES = 16  # as many as may be received at the same time, at their largest
_BODY_SECONDS = 10.0
_SHOWN_NAMES = 10

_PATH = re.compile(r"/v1/traces/([^/]*)/criteria")
_TRACE_ID = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)
_FORM = 'send {"criteria": ["name", ...]}'


class UnknownCriteriaError(IntakeError):
    """No criteria have this name: 422, NOT_FOUND, do not resend before they are loaded."""

    http_status = 422
    grpc_code = "NOT_FOUND"


class ControlListener(HttpListener):
    """The server of the control listener. Start it once, stop it as often as you like; both may be called from any thread."""

    def __init__(
        self,
        *,
        bind: Callable[[bytes, Sequence[str]], None],
        known: Callable[[], Collection[str]],
        refused: RejectionCounter,
        listen: ListenOptions,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            bind: takes a trace ID of 16 bytes and the names of criteria; called on the loop, so it must not wait.
            known: every name that criteria have, aliases too; called for each request, since criteria are reloaded.
            refused: counts the requests that are rejected.
            listen: where, and whom it admits.
        """

        def service() -> ControlService:
            hosts = Hosts(listen.host, listen.allowed_hosts)
            return ControlService(bind=bind, known=known, refused=refused, hosts=hosts, tokens=listen.tokens)

        limits = HttpLimits(max_connections=MAX_CONNECTIONS)
        super().__init__(service, listen=listen, limits=limits, thread_name="control-http", refused=partial(refused, TRANSPORT))


class ControlService(HttpAnswers):
    """Answers the requests of the control listener."""

    def __init__(
        self,
        *,
        bind: Callable[[bytes, Sequence[str]], None],
        known: Callable[[], Collection[str]],
        refused: RejectionCounter,
        hosts: Hosts,
        tokens: Tokens | None,
    ) -> None:
        """Take what the listener was given."""
        super().__init__(refused=refused, hosts=hosts, tokens=tokens)
        self._bind = bind
        self._known = known
        self._bodies = BodyReader(
            max_body_bytes=MAX_BODY_BYTES, max_pending_bytes=_PENDING_BODIES * MAX_BODY_BYTES, body_seconds=_BODY_SECONDS
        )

    def transport(self, encoding: Encoding | None) -> str:
        """Return the name under which requests are counted."""
        del encoding
        return TRANSPORT

    async def route(self, request: web.BaseRequest, encoding: Encoding | None) -> HttpResponse:
        """Bind."""
        path = _PATH.fullmatch(request.path)
        if path is None:
            raise NotFoundError(where="request", what="nothing is served at this path", fix="use /v1/traces/{trace_id}/criteria")
        if request.method != "PUT":
            raise MethodError(where="/v1/traces/{trace_id}/criteria", allowed="PUT")
        trace_id = _trace_id(path[1])
        if encoding is not Encoding.JSON:
            raise UnsupportedMediaError(where="Content-Type", what="the body is not said to be JSON", fix=f"send {Encoding.JSON.value}")
        if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise UnsupportedMediaError(where="Content-Encoding", what="nothing is unpacked here", fix="send the body as it is")
        body = await self._bodies.read(request, packed=False)
        try:
            names = _names(body.take())
        finally:
            body.release()
        self._refuse_unknown(names)
        # The names are those of loaded criteria, so one copy of each serves all traces that are bound.
        self._bind(trace_id, tuple(map(sys.intern, names)))
        return HttpResponse(status=204, body=b"")

    def _refuse_unknown(self, names: Sequence[str]) -> None:
        known = self._known()
        unknown = [name for name in names if name not in known]
        if not unknown:
            return
        shown = sorted(known)
        fix = f"load them, or use names that are loaded: {_listed(shown)}" if shown else "load criteria first"
        raise UnknownCriteriaError(where="criteria", what=f"no criteria are named {_listed(unknown)}", fix=fix)


def _trace_id(text: str) -> bytes:
    if not _TRACE_ID.fullmatch(text) or not int(text, 16):
        fix = "send 32 hexadecimal digits that are not all zero"
        raise DecodeError(where="trace ID", what="the path does not hold a trace ID", fix=fix)
    return bytes.fromhex(text)


def _names(body: bytes) -> tuple[str, ...]:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):  # UnicodeDecodeError is one, too; the cause repeats what was sent
        raise DecodeError(where="body", what="this is not JSON", fix=_FORM) from None
    if isinstance(found, dict):
        if set(found) != {"criteria"}:
            raise DecodeError(where="body", what="the object has not the key criteria alone", fix=_FORM)
        found = found["criteria"]
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list) or not names:
        raise DecodeError(where="criteria", what="this is neither a name nor a list of names", fix=_FORM)
    if len(names) > MAX_NAMES:
        raise DecodeError(where="criteria", what=f"more than {MAX_NAMES} names", fix="bind fewer criteria to one trace")
    if not all(isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS for name in names):
        raise DecodeError(where="criteria", what=f"a name is not text of 1 to {MAX_NAME_CHARACTERS} characters", fix=_FORM)
    return tuple(dict.fromkeys(names))


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {rest} more" if rest > 0 else "")
