"""Controls access to pages for people, and logs browsers in.

Without tokens, the pages are for clients on this machine. With tokens, they are for whoever shows one: programs in the ``Authorization``
header, browsers by a session, which a form opens, since a browser can't send a bearer token by itself. The cookie is HttpOnly,
SameSite=Strict, bound to the pages' path, and Secure where there is TLS. Cookies ignore ports, so the cookie's name holds the port: two
sidecars on one machine would log each other's users out.

A session is named by 256 random bits. Only a hash of them is kept, in memory, so all sessions end with the process. Removing a token from
the file ends the sessions that it opened. Only holders of a token can open a session, so nobody else can use up the sessions.
Threads: the receiver's event loop. Pages are made on threads of their own, so that slow ones don't keep health checks waiting.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

from otel_toolcall_eval.model.errors import DecodeError, IntakeError
from otel_toolcall_eval.receivers.http.answers import HttpResponse, MethodError, NotFoundError, UnsupportedMediaError, answer_of
from otel_toolcall_eval.receivers.http.body import BodyReader
from otel_toolcall_eval.receivers.http.pages import TEXT, SiteRequest, is_local
from otel_toolcall_eval.receivers.tokens import UnauthenticatedError, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import web

    from otel_toolcall_eval.receivers.http.pages import Page, StatusPages
    from otel_toolcall_eval.receivers.tokens import Tokens


SITE_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # not no-referrer: with that a browser sends "Origin: null" with our own form
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Sent with all that the gate answers, refusals too: nothing is kept, run, framed, or fetched from elsewhere."""

LOGIN = "/login"
LOGOUT = "/logout"
_FORM = "application/x-www-form-urlencoded"
_MAX_FORM_BYTES = 16 << 10
_FORMS_AT_A_TIME = 8
_FORM_SECONDS = 10.0
_MAX_FIELDS = 10
_THREADS = 2
_PRINTABLE = re.compile(r"[!-\[\]-~]*", re.ASCII)  # no blanks and no backslash, which browsers take for a slash


class CrossSiteError(IntakeError):
    """The form was sent by another site's page: 403, do not resend."""

    http_status = 403
    grpc_code = "PERMISSION_DENIED"


class PageAccess:
    """Answers what is asked of a site."""

    def __init__(self, site: StatusPages, *, tokens: Tokens | None, port: int, secure: bool) -> None:
        """Start no thread yet.

        Args:
            site: makes the pages.
            tokens: of the listener.
            port: of the listener.
            secure: it has TLS.
        """
        self._site = site
        self._tokens = tokens
        self._sessions = None if tokens is None else Sessions(tokens)
        self._cookie = f"toolcall_eval_session_{port}"
        self._attributes = f"Path={site.root}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
        self._bodies = BodyReader(
            max_body_bytes=_MAX_FORM_BYTES, max_pending_bytes=_FORMS_AT_A_TIME * _MAX_FORM_BYTES, body_seconds=_FORM_SECONDS
        )
        self._rendering = ThreadPoolExecutor(_THREADS, thread_name_prefix="otlp-http-site")

    def close(self) -> None:
        """End the threads."""
        self._rendering.shutdown(wait=True, cancel_futures=True)

    def serves(self, request: web.BaseRequest) -> bool:
        """Tell whether a request is for the site; a browser that asks for no path at all is."""
        root = self._site.root
        if request.path == "/":
            return request.method in {"GET", "HEAD"} and _is_browser(request)
        return request.path == root or request.path.startswith(f"{root}/")

    async def answer(self, request: web.BaseRequest) -> HttpResponse:
        """Answer a request that is for the site; raises IntakeError."""
        if self._tokens is None and not is_local(request.remote or ""):
            raise NotFoundError(where="request", what="nothing is served at this path", fix="send traces to /v1/traces")
        root = self._site.root
        if request.path == "/":
            return _see(root)
        if self._sessions is not None and request.path == root + LOGIN:
            return await self._login(request, self._sessions)
        if self._sessions is not None and request.path == root + LOGOUT:
            return await self._logout(request, self._sessions)
        if request.method not in {"GET", "HEAD"}:
            raise MethodError(where=request.path[:100], allowed="GET, HEAD")
        logged_in = self._sessions is not None and self._sessions.is_open(request.cookies.get(self._cookie))
        if self._tokens is not None and not logged_in and request.path not in self._site.open_paths:
            try:
                self._tokens.check(request.headers.get("Authorization"))
            except UnauthenticatedError:
                if "Authorization" in request.headers or not _is_browser(request):
                    raise
                return _see(f"{root}{LOGIN}?back_to={quote(request.path_qs, safe='')}")
        query = dict(reversed(list(request.query.items())))
        return await self._made(partial(self._site.page, SiteRequest(path=request.path, query=query, logged_in=logged_in)))

    async def _login(self, request: web.BaseRequest, sessions: Sessions) -> HttpResponse:
        if request.method in {"GET", "HEAD"}:
            back_to = self._inside(request.query.get("back_to", ""))
            return await self._made(partial(self._site.login_page, back_to=back_to, refused=False))
        fields = await self._form(request)
        back_to = self._inside(fields.get("back_to", ""))
        name = sessions.begin(fields.get("token", ""))
        if name is None:
            return await self._made(partial(self._site.login_page, back_to=back_to, refused=True))
        return _see(back_to, cookie=f"{self._cookie}={name}; Max-Age={SESSION_SECONDS:.0f}; {self._attributes}")

    async def _logout(self, request: web.BaseRequest, sessions: Sessions) -> HttpResponse:
        await self._form(request)
        sessions.end(request.cookies.get(self._cookie))
        return _see(self._site.root + LOGIN, cookie=f"{self._cookie}=; Max-Age=0; {self._attributes}")

    async def _form(self, request: web.BaseRequest) -> Mapping[str, str]:
        """Return the fields of a form that one of our own pages has sent."""
        if request.method != "POST":
            raise MethodError(where=request.path[:100], allowed="POST")
        if not _is_same_site(request):
            raise CrossSiteError(where="request", what="the form was sent from another site", fix="use the form of this site")
        if request.content_type != _FORM:
            raise UnsupportedMediaError(where="Content-Type", what="this is not the form", fix=f"send {_FORM}")
        body = await self._bodies.read(request, packed=False)
        try:
            return dict(reversed(parse_qsl(body.take().decode(errors="replace"), max_num_fields=_MAX_FIELDS)))
        except ValueError:
            raise DecodeError(where="body", what="the form has too many fields", fix="use the form of this site") from None
        finally:
            body.release()

    def _inside(self, target: str) -> str:
        """Return where to go after the login: a page of the site, and nowhere else whatever the link says that led to the form."""
        root = self._site.root
        path = urlsplit(target).path if target.startswith(root) and _PRINTABLE.fullmatch(target) else ""
        fits = (path == root or path.startswith(f"{root}/")) and path not in {root + LOGIN, root + LOGOUT}
        return target if fits else root

    async def _made(self, make: partial[Page]) -> HttpResponse:
        return answer_of(await asyncio.get_running_loop().run_in_executor(self._rendering, make))


def _is_same_site(request: web.BaseRequest) -> bool:
    """Tell whether a form was sent from a page of this site, or by no browser.

    Browsers say so themselves where they trust the connection, whatever name a proxy in front has. Elsewhere they say the page's origin; of
    that the host is compared, since a proxy may end TLS. Source: Fetch Metadata Request Headers; Fetch Standard, "Origin".
    """
    fetched = request.headers.get("Sec-Fetch-Site")
    if fetched is not None:
        return fetched in {"same-origin", "none"}
    origin = request.headers.get("Origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("Host", "")


def _is_browser(request: web.BaseRequest) -> bool:
    return "text/html" in request.headers.get("Accept", "")


def _see(location: str, *, cookie: str | None = None) -> HttpResponse:
    headers = {"Location": location, **({} if cookie is None else {"Set-Cookie": cookie})}
    return HttpResponse(status=303, body=b"", content_type=TEXT, headers=headers)


MAX_SESSIONS = 100
"""Beyond it, the oldest ends."""

SESSION_SECONDS = 12 * 3600.0
"""A working day, whether or not the session is used."""


class Sessions:
    """Open sessions. Belongs to one thread."""

    def __init__(self, tokens: Tokens, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any.

        Args:
            tokens: open sessions.
            clock: seconds from any origin.
        """
        self._tokens = tokens
        self._clock = clock
        self._open: dict[bytes, tuple[bytes, float]] = {}

    def begin(self, token: str) -> str | None:
        """Return the name of a new session, for a cookie; None if the token is not valid."""
        digest = digest_of(token.encode(errors="replace"))
        if not self._tokens.holds(digest):
            return None
        if len(self._open) >= MAX_SESSIONS:
            del self._open[next(iter(self._open))]
        name = secrets.token_urlsafe(32)
        self._open[digest_of(name.encode())] = (digest, self._clock() + SESSION_SECONDS)
        return name

    def is_open(self, name: str | None) -> bool:
        """Tell whether a session is open. It is found by its hash, so the time that this takes tells nothing of its name."""
        key = digest_of((name or "").encode(errors="replace"))
        if key not in self._open:
            return False
        token, until = self._open[key]
        if self._clock() < until and self._tokens.holds(token):
            return True
        del self._open[key]
        return False

    def end(self, name: str | None) -> None:
        """End a session, if it is open."""
        self._open.pop(digest_of((name or "").encode(errors="replace")), None)
