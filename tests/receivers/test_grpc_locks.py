"""No lock of ours is held while others are called: what counts, and gRPC, have locks of their own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NoReturn, cast

import pytest

from otel_toolcall_eval.receivers.grpc import calls as grpc_calls
from otel_toolcall_eval.receivers.grpc.calls import CallGate
from tests.patience import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc

    from otel_toolcall_eval.model.errors import IntakeError


class Stalling:
    """A call whose message does not come, and that can be cancelled; notes whether other calls go on meanwhile."""

    def __init__(self) -> None:
        self.calls: CallGate | None = None
        self.cancelled = threading.Event()
        self.others: list[bool] = []

    def cancel(self) -> None:
        self.look()
        self.cancelled.set()

    def refused(self, _transport: str, _reason: str) -> None:
        self.look()

    def look(self) -> None:
        calls = self.calls
        assert calls is not None
        another = threading.Thread(target=wait_in, args=(calls, Stalling(), lambda: True), daemon=True)
        another.start()
        another.join(5)  # a watchdog
        self.others.append(not another.is_alive())


def wait_in(calls: CallGate, call: Stalling, until: Callable[[], bool]) -> None:
    with calls.waiting(cast("grpc.ServicerContext", call)):
        assert until()


def refuse(error: IntakeError, _context: grpc.ServicerContext) -> NoReturn:
    raise error


@pytest.mark.parametrize(
    ("message_seconds", "pressed"), [pytest.param(0.05, False, id="it took too long"), pytest.param(60, True, id="another needs its place")]
)
def test_other_calls_go_on_while_a_slow_one_is_counted_and_ended(
    monkeypatch: pytest.MonkeyPatch,
    message_seconds: float,
    pressed: bool,  # noqa: FBT001 - a column
) -> None:
    monkeypatch.setattr(grpc_calls, "_PRESSED_SECONDS", 0)
    slow = Stalling()
    calls = slow.calls = CallGate(
        refuse=refuse, refused=slow.refused, transport="grpc", max_pending_bytes=100, most=1, message_seconds=message_seconds
    )
    calls.start()
    try:
        waiting = threading.Thread(target=wait_in, args=(calls, slow, lambda: slow.cancelled.wait(PATIENCE_SECONDS)))
        waiting.start()
        if pressed:
            assert calls._may_begin()  # noqa: SLF001 - the one that stalls
            wait_for(calls._may_begin)  # noqa: SLF001 - gRPC asks it, on a thread where nothing may wait
        waiting.join(PATIENCE_SECONDS)
    finally:
        calls.stop()
    assert slow.others == [True, True]
