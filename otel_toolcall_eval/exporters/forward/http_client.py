"""Sends over HTTP.

Choice: aiohttp, which the receiver uses, too, on a loop and a thread of its own. Its time-out holds for all of a request, whereas those of
requests and urllib3 hold for each read of the socket, so that a downstream that answers one byte at a time would keep a sender for ever.
Redirects are not followed, and neither proxies nor ``.netrc`` are looked up for forwarded requests: spans go where the settings say, and
nowhere else. For our own events the proxies of the environment hold, as everywhere in OpenTelemetry.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import threading
from concurrent.futures import Future
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import aiohttp

from otel_toolcall_eval.exporters.forward.downstream import Credentials, Delivered, Refused, RetryLater
from otel_toolcall_eval.exporters.suppression import suppressed_instrumentation
from otel_toolcall_eval.otlp.replies import HTTP_PATHS
from otel_toolcall_eval.otlp.response_decoding import rejected_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.exporters.forward.downstream import Downstream, Outcome, QueuedRequest

_RETRYABLE: Final = frozenset({
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
})  # fmt: skip
"""Source: OTLP specification, "OTLP/HTTP Response"."""

_ANSWER_BYTES: Final = 64 << 10
_SUCCESS: Final = 2  # hundred
_CONNECTIONS: Final = 8
_END_SECONDS: Final = 1.0


class HttpClient:
    """A session with the downstream."""

    takes_json = True

    def __init__(self, downstream: Downstream) -> None:
        """Prepare; raises SettingsError if a file can't be used."""
        self._downstream = downstream
        self.shown = downstream.shown
        self._credentials = Credentials(downstream)
        self.warnings = self._credentials.warnings
        self._urls = {signal: downstream.url(path) for signal, path in HTTP_PATHS.items()}
        self._lock = threading.Lock()
        self._awaited: set[Future[Outcome]] = set()  # the loop's, and once it has ended, the closing thread's
        # Guarded by _lock:
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._stop_asked: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Start the loop; connections come with the first request."""
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="otlp-forward-http", daemon=True)
        self._thread.start()
        started.result()

    def _run(self, started: Future[None]) -> None:
        serving = self._serve(started)
        try:
            asyncio.run(serving)
        except BaseException as error:  # belongs to whoever waits for the start: no file is left for a loop, for example
            serving.close()
            if started.done():
                raise
            started.set_exception(error)

    def send(self, parcel: QueuedRequest) -> Outcome:
        """Send one parcel and wait for the answer."""
        body = gzip.compress(parcel.body, compresslevel=1, mtime=0) if self._downstream.gzip else parcel.body
        answer: Future[Outcome] = Future()
        with self._lock:
            if self._loop is None:
                return RetryLater(code="closed")
            self._awaited.add(answer)
            self._loop.call_soon_threadsafe(self._begin, answer, parcel, body)
        return answer.result()

    def refresh(self) -> None:
        """Read files again that have changed; new connections are made with them."""
        self._credentials.refresh()

    def close(self) -> None:
        """Cut what is under way."""
        with self._lock:
            thread, loop, stop_asked = self._thread, self._loop, self._stop_asked
            self._thread = self._loop = self._stop_asked = None
        if thread is not None and loop is not None and stop_asked is not None:
            loop.call_soon_threadsafe(stop_asked.set_result, None)
            thread.join(_END_SECONDS)  # it may wait for a name to be resolved, which nothing can cut
            for answer in tuple(self._awaited):  # nobody is left who would
                self._settle(answer, RetryLater(code="closed"))

    def _begin(self, answer: Future[Outcome], parcel: QueuedRequest, body: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._post(parcel, body))
        task.add_done_callback(lambda done: self._settle(answer, RetryLater(code="closed") if done.cancelled() else done.result()))

    def _settle(self, answer: Future[Outcome], outcome: Outcome) -> None:
        if answer in self._awaited:
            self._awaited.discard(answer)
            answer.set_result(outcome)

    async def _serve(self, started: Future[None]) -> None:
        loop = asyncio.get_running_loop()
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=self._downstream.timeout_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={"User-Agent": self._downstream.user_agent},
            trust_env=self._downstream.by_proxy,
        ) as session:
            self._session, self._stop_asked = session, loop.create_future()
            stop_asked = self._stop_asked
            self._loop = loop
            started.set_result(None)
            await stop_asked

    async def _post(self, parcel: QueuedRequest, body: bytes) -> Outcome:
        if self._session is None:
            return RetryLater(code="closed")
        try:
            tls = self._credentials.tls
            with suppressed_instrumentation():
                async with self._session.post(
                    self._urls[parcel.signal],
                    data=io.BytesIO(body),
                    headers=self._headers(parcel),
                    allow_redirects=False,
                    ssl=True if tls is None else tls.context,
                ) as response:
                    return await _outcome_of(response, parcel)
        except TimeoutError:
            return RetryLater(code="timeout")
        except Exception as error:  # noqa: BLE001 - aiohttp's, the system's, a parser's: it did not arrive; the text may hold the URL
            return RetryLater(code=type(error).__name__)

    def _headers(self, parcel: QueuedRequest) -> Mapping[str, str]:
        headers = {**self._downstream.headers, "Content-Type": parcel.encoding.value}
        if self._downstream.gzip:
            headers["Content-Encoding"] = "gzip"
        if (authorization := self._credentials.authorization) is not None:
            headers["Authorization"] = authorization
        return headers


async def _outcome_of(response: aiohttp.ClientResponse, parcel: QueuedRequest) -> Outcome:
    if response.status // 100 == _SUCCESS:
        return Delivered(rejected=rejected_in(await _answer(response), parcel.encoding, parcel.signal))
    code = str(response.status)
    if response.status in _RETRYABLE:
        return RetryLater(code=code, after_seconds=_asked(response.headers.get("Retry-After", "")))
    return Refused(code=code)


async def _answer(response: aiohttp.ClientResponse) -> bytes:
    """Return what of the answer is there and not too much; it was taken, whatever else it says."""
    try:
        answer = await response.content.readexactly(_ANSWER_BYTES)
    except asyncio.IncompleteReadError as error:
        return error.partial
    except (aiohttp.ClientError, OSError, TimeoutError):
        answer = b""
    response.close()  # with the connection, on which more may follow
    return answer


def _asked(retry_after: str) -> float | None:
    """Return the seconds of a ``Retry-After``, which may also be a date."""
    text = retry_after.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    now = datetime.now(UTC)
    return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
