"""Receives the message of each gRPC call, within bounds of time, number and bytes; checks tokens and gives gRPC its certificates.

gRPC waits for the message of a unary call on a worker's thread, without limit and before any code of ours runs. As many stalled calls as
there are workers, from one connection, would block everybody. So every call is registered as a streaming one, whose waiting we can end.
Many threads wait, since waiting costs nothing. Few decode, since decoding costs memory and decoders only wait for each other.
Rejected: gRPC's own bound on calls (it answers without a hint to resend, so senders drop what they hold), the asyncio server (slower, see
``receiver``). gRPC for Python cannot bound open connections, nor the bytes of a message that is still coming; so at worst there are as
many messages of full size as calls.

Tokens are checked in an interceptor, so nothing that is ever served escapes the check. A call without a token gets a streaming handler,
whatever its client meant: gRPC then does not read the message, and an unknown sender can't make us hold 64 MiB. The health service needs no
token, see ``health`` for what strangers can make us hold there.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeAlias, cast

import grpc

from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.receivers.tokens import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_toolcall_eval.model.errors import IntakeError
    from otel_toolcall_eval.receivers.intake import RejectionCounter
    from otel_toolcall_eval.receivers.tls import Material, ServerTls
    from otel_toolcall_eval.receivers.tokens import Tokens


MOST_CALLS = 64
"""Calls under way at a time; a sender has one to ten. A message that comes at once is answered within milliseconds."""

MESSAGE_SECONDS = 30.0
"""For a message to arrive in; the same as for a body over HTTP."""

_PRESSED_SECONDS = 2.0  # when all calls are taken, the one that has waited longest is ended for the next, unless it is younger
_TURN_SECONDS = 0.2  # where messages are read by turns, they are small, and come with the headers of their calls
_DECODING = 4


Handler: TypeAlias = "Callable[[bytes, grpc.ServicerContext], bytes | Callable[[], bytes]]"
"""Answers one message: at once, or by what may wait, while other messages are decoded."""

Refuse: TypeAlias = "Callable[[IntakeError, grpc.ServicerContext], NoReturn]"
"""Ends a call with an error."""


class CallGate:
    """The calls of one server. Start it before the server, stop it after."""

    def __init__(
        self,
        *,
        refuse: Refuse,
        refused: RejectionCounter,
        transport: str,
        max_pending_bytes: int,
        most: int = MOST_CALLS,
        reading: int | None = None,
        message_seconds: float = MESSAGE_SECONDS,
    ) -> None:
        """Set the bounds.

        Args:
            refuse: ends a call that is one too many.
            refused: counts the calls that were ended because their message did not come.
            transport: under which they are counted.
            max_pending_bytes: of all messages that are held at the same time; beyond, senders are asked to resend.
            most: calls that may be under way.
            reading: messages that may be on their way or held at a time; the other calls wait for their turn, and gRPC holds no more of
                theirs than a window of flow control. None is as many as there are calls.
            message_seconds: in which a message has to arrive.
        """
        self._refuse = refuse
        self._refused = refused
        self._transport = transport
        self._max_pending_bytes = max_pending_bytes
        self._most = most
        self._message_seconds = message_seconds
        self.workers = ThreadPoolExecutor(most, thread_name_prefix="otlp-grpc")
        self.news = ThreadPoolExecutor(most, thread_name_prefix="otlp-grpc-news")  # for what is sent to clients that may not read
        self._refusing = ThreadPoolExecutor(1, thread_name_prefix="otlp-grpc-refuse")
        self._decoding = threading.BoundedSemaphore(_DECODING)
        self._reading = None if reading is None else threading.BoundedSemaphore(reading)
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._waiting: OrderedDict[grpc.ServicerContext, float] = OrderedDict()  # for their client, since when; the oldest first
        self._under_way = 0
        self._pending_bytes = 0
        self._stopping = False
        self._watch = threading.Thread(target=self._cut_slow_calls, name="otlp-grpc-watch", daemon=True)

    def start(self) -> None:
        """Watch over the calls."""
        self._watch.start()

    def stop(self) -> None:
        """End the threads; the server has stopped."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._watch.ident is not None:
            self._watch.join()
        self.workers.shutdown(wait=True, cancel_futures=True)
        self.news.shutdown(wait=True, cancel_futures=True)
        self._refusing.shutdown(wait=True, cancel_futures=True)

    def service(self, handlers: Mapping[str, Handler]) -> grpc.GenericRpcHandler:  # type: ignore[type-arg] # generic in the stub alone
        """Return what gRPC asks for the handlers of some methods, each of one message, by their full names."""

        def wrapped(handler: Handler) -> grpc.RpcMethodHandler[bytes, bytes]:
            def answer(messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
                return self._answer(messages, context, handler)

            answer.experimental_thread_pool = self.workers  # type: ignore[attr-defined] # the server may have others
            return grpc.stream_unary_rpc_method_handler(answer)

        return self.bounded({name: wrapped(handler) for name, handler in handlers.items()})

    def bounded(self, handlers: Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]) -> grpc.GenericRpcHandler:  # type: ignore[type-arg] # see above
        """Return the same for handlers that come for their message themselves, by ``message_of``, on ``workers``."""

        def one_too_many(_messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            self.refuse_for_now("too many calls are under way", context)

        # gRPC runs a handler on this pool if it has one. The others may all be waiting.
        one_too_many.experimental_thread_pool = self._refusing  # type: ignore[attr-defined]
        return _Service(handlers, grpc.stream_unary_rpc_method_handler(one_too_many), self._may_begin)

    def refuse_for_now(self, what: str, context: grpc.ServicerContext) -> NoReturn:
        """End a call for which there is no room, and ask to come again."""
        self._refuse(OverloadedError(where="receiver", what=what, fix="resend after a delay"), context)

    @contextmanager
    def message_of(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Give the message of a call, whose place and bytes are held till the end; raises gRPC's own error if the call has ended."""
        held = 0
        try:
            with self._turn():
                with self.waiting(context):
                    message = next(messages, None)
                if message is None:
                    context.abort(grpc.StatusCode.UNIMPLEMENTED, "request: the call has no message; send exactly one")
                if not self._hold(len(message)):
                    self.refuse_for_now("too many bytes are being received", context)
                held = len(message)
                yield message
        finally:
            with self._changed:
                self._under_way -= 1
                self._pending_bytes -= held

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for a turn to read; whoever has it, and keeps others waiting for a message that does not come, is ended."""
        if self._reading is None:
            yield
            return
        while not self._reading.acquire(timeout=_TURN_SECONDS):
            with self._changed:
                slow = self._slowest(older_than=_TURN_SECONDS)
            if slow is not None:
                self._cut(slow)
        try:
            yield
        finally:
            self._reading.release()

    @contextmanager
    def waiting(self, context: grpc.ServicerContext) -> Iterator[None]:
        """Wait for the client, who may take too long: then the call is ended, and what waits for it raises or returns."""
        with self._changed:
            self._waiting[context] = time.monotonic()
            if len(self._waiting) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._waiting.pop(context, None)

    def _answer(self, messages: Iterator[bytes], context: grpc.ServicerContext, handler: Handler) -> bytes:
        with self.message_of(messages, context) as message:
            with self._decoding:
                answer = handler(message, context)
            return answer if isinstance(answer, bytes) else answer()

    def _hold(self, count: int) -> bool:
        with self._changed:
            if self._pending_bytes and self._pending_bytes + count > self._max_pending_bytes:
                return False
            self._pending_bytes += count
            return True

    def _may_begin(self) -> bool:
        """Tell whether one more call may begin, and count it; asked by gRPC's own thread.

        Counted here and not when a thread takes it up: calls that stall would queue for a thread in front of those that don't.
        """
        slow = None
        with self._changed:
            may = self._under_way < self._most or (slow := self._slowest(older_than=_PRESSED_SECONDS)) is not None
            self._under_way += may
        if slow is not None:
            self._cut(slow)
        return may

    def _cut_slow_calls(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                slow = self._slowest(older_than=self._message_seconds)
                if slow is None:
                    oldest = next(iter(self._waiting.values()), None)
                    self._changed.wait(None if oldest is None else max(0.0, oldest + self._message_seconds - time.monotonic()))
            if slow is not None:
                self._cut(slow)

    def _slowest(self, *, older_than: float) -> grpc.ServicerContext | None:
        """Take out the call that has waited longest for its message, if it has waited so long. The lock is held."""
        context, since = next(iter(self._waiting.items()), (None, 0.0))
        if context is None or time.monotonic() - since < older_than:
            return None
        del self._waiting[context]
        return context

    def _cut(self, slow: grpc.ServicerContext) -> None:
        """End a call. Without the lock: what counts, and gRPC, have locks of their own."""
        self._refused(self._transport, "too_slow")
        slow.cancel()  # type: ignore[no-untyped-call] # the stub gives it no types


class _Service(grpc.GenericRpcHandler):  # type: ignore[type-arg] # generic in the stub alone
    """Looks handlers up by method, and the refusing one if no call may begin."""

    def __init__(
        self,
        handlers: Mapping[str, grpc.RpcMethodHandler[bytes, bytes]],
        refusing: grpc.RpcMethodHandler[bytes, bytes],
        may_begin: Callable[[], bool],
    ) -> None:
        self._handlers = handlers
        self._refusing = refusing
        self._may_begin = may_begin

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        found = self._handlers.get(handler_call_details.method)
        return found if found is None or self._may_begin() else self._refusing


_OPEN_METHODS = "/grpc.health.v1.Health/"
"""Probes have no token, and learn nothing but whether we serve."""

_AUTHORIZATION = "authorization"


class TokenInterceptor(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs alone
    """Lets calls pass that have a token. Any thread."""

    def __init__(self, tokens: Tokens, refuse: Callable[[IntakeError, grpc.ServicerContext], NoReturn]) -> None:
        """Ask for one of ``tokens``; ``refuse`` counts and ends a call that has none."""
        self._tokens = tokens
        self._refuse = refuse

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[bytes, bytes] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Return the handler of the call, or one that refuses it."""
        if handler_call_details.method.startswith(_OPEN_METHODS):
            return continuation(handler_call_details)
        metadata = handler_call_details.invocation_metadata or ()
        try:
            self._tokens.check(next((value for key, value in metadata if key == _AUTHORIZATION), None))
        except UnauthenticatedError as error:
            return self._refusing(error)
        return continuation(handler_call_details)

    def _refusing(self, error: UnauthenticatedError) -> grpc.RpcMethodHandler[bytes, bytes]:
        def refuse(_requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            self._refuse(error, context)

        return grpc.stream_unary_rpc_method_handler(refuse)


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """Return credentials that give each new connection what is in force when it comes."""
    given = tls.material

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """Return what changed since the last connection; None if nothing did. Called for each handshake, on gRPC's threads."""
        nonlocal given
        if tls.material is given:
            return None
        given = tls.material
        return _configuration(given)

    # The stubs do not know that None means "as before". Source: grpc.dynamic_ssl_server_credentials.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", renewed)
    return grpc.dynamic_ssl_server_credentials(_configuration(given), fetch, require_client_authentication=tls.asks_clients)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.chain)], root_certificates=material.client_ca)
