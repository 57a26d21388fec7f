"""Sends over gRPC.

Choice: the synchronous channel with calls on raw bytes, which the senders' threads block on, as the receiver does. The channel's own
wish to wait between connections, up to two minutes, is cut to a second: the queue's back-off decides when to try.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import grpc

from otel_toolcall_eval.exporters.forward.downstream import Credentials, Delivered, Refused, RetryLater
from otel_toolcall_eval.otlp.replies import GRPC_SERVICES, Encoding
from otel_toolcall_eval.otlp.response_decoding import rejected_in, retry_info_seconds, status_retry_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.exporters.forward.downstream import Downstream, Outcome, QueuedRequest
    from otel_toolcall_eval.otlp.replies import Signal

    Export = grpc.UnaryUnaryMultiCallable[bytes, bytes]

_RETRYABLE: Final = frozenset({
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
})  # fmt: skip
"""Source: OTLP specification, "OTLP/gRPC Response"; RESOURCE_EXHAUSTED only with RetryInfo."""

_ANSWER_BYTES: Final = 1 << 20
_TIMEOUTS_IN_A_ROW: Final = 3  # then the connection may lead nowhere, and TCP takes minutes to notice


class GrpcClient:
    """A channel to the downstream."""

    takes_json = False

    def __init__(self, downstream: Downstream) -> None:
        """Prepare; raises SettingsError if a file can't be used."""
        self._downstream = downstream
        self.shown = downstream.shown
        self._credentials = Credentials(downstream)
        self.warnings = self._credentials.warnings
        self._compression = grpc.Compression.Gzip if downstream.gzip else grpc.Compression.NoCompression
        self._lock = threading.Lock()
        # Guarded by _lock:
        self._channel: grpc.Channel | None = None
        self._exports: Mapping[Signal, Export] = {}
        self._timeouts = 0
        self._closed = False

    def start(self) -> None:
        """Open the channel; the connection comes with the first call."""
        with self._lock:
            self._open()

    def send(self, parcel: QueuedRequest) -> Outcome:
        """Send one parcel and wait for the answer."""
        with self._lock:
            if self._closed or self._channel is None:
                return RetryLater(code="closed")
            export, channel = self._exports[parcel.signal], self._channel
        try:
            answer, _ = export.with_call(
                parcel.body, timeout=self._downstream.timeout_seconds, metadata=self._metadata(), compression=self._compression
            )
        except grpc.RpcError as error:
            outcome = _outcome_of(error)
        except ValueError:  # the channel was closed meanwhile
            return RetryLater(code="closed")
        else:
            outcome = Delivered(rejected=rejected_in(answer, Encoding.PROTOBUF, parcel.signal))
        self._note(outcome, channel)
        return outcome

    def refresh(self) -> None:
        """Read files again that have changed."""
        if self._credentials.refresh():
            with self._lock:
                if self._channel is not None:
                    self._open()  # the old channel goes with the last call on it

    def close(self) -> None:
        """Cut what is under way."""
        with self._lock:
            self._closed = True
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _open(self) -> None:
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", _ANSWER_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.min_reconnect_backoff_ms", 1_000),
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.primary_user_agent", self._downstream.user_agent),
            ("grpc.use_local_subchannel_pool", 1),  # else a new channel would get the old connection back
        ]
        target = self._downstream.authority
        tls = self._credentials.tls
        if tls is None:
            self._channel = grpc.insecure_channel(target, options=options)
        else:
            credentials = grpc.ssl_channel_credentials(root_certificates=tls.ca, private_key=tls.key, certificate_chain=tls.cert)
            self._channel = grpc.secure_channel(target, credentials, options=options)
        self._exports = {signal: self._channel.unary_unary(f"/{name}/Export", None, None) for signal, name in GRPC_SERVICES.items()}
        self._timeouts = 0

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        authorization = self._credentials.authorization
        token = () if authorization is None else (("authorization", authorization),)
        return *self._downstream.headers.items(), *token

    def _note(self, outcome: Outcome, channel: grpc.Channel) -> None:
        """Take a fresh connection where one time-out follows the other."""
        with self._lock:
            timed_out = isinstance(outcome, RetryLater) and outcome.code == grpc.StatusCode.DEADLINE_EXCEEDED.name
            self._timeouts = self._timeouts + 1 if timed_out else 0
            if self._timeouts < _TIMEOUTS_IN_A_ROW or self._closed or channel is not self._channel:
                return
            self._open()
        channel.close()


def _outcome_of(error: grpc.RpcError) -> Outcome:
    code = error.code()
    after = _asked(error)
    if code in _RETRYABLE or (code is grpc.StatusCode.RESOURCE_EXHAUSTED and after is not None):
        return RetryLater(code=code.name, after_seconds=after)
    return Refused(code=code.name)


def _asked(error: grpc.RpcError) -> float | None:
    """Return the delay that the trailers ask for, in either of the two places where it may stand."""
    read = {"grpc-status-details-bin": status_retry_seconds, "google.rpc.retryinfo-bin": retry_info_seconds}
    for entry in error.trailing_metadata() or ():
        reader, value = read.get(entry.key), entry.value
        found = reader(value) if reader is not None and isinstance(value, bytes) else None
        if found is not None:
            return found
    return None
