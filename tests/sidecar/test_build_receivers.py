"""The listeners are bounded by what the operator says."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.settings.service import DEFAULTS, Deployment, Listen, Listener
from otel_toolcall_eval.settings.service import Intake as IntakeSettings
from otel_toolcall_eval.settings.types import Address
from otel_toolcall_eval.sidecar.build_receivers import build_receivers
from tests.otlp.otlp_requests import attribute, numbered, request_of
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.receivers import Intake, call, otlp, running

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.worker import Worker

LARGEST = 10_000
LARGE = request_of(numbered(1), attributes=[attribute("padding", "x" * (LARGEST - 500))]).SerializeToString()
ANY_PORT = Listener(address=Address(host="127.0.0.1", port=0))


class OpenTracesSnapshot(Intake):
    """Takes nothing in before it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go_on = 0, threading.Event()
        self._lock = threading.Lock()

    def offer(self, decoded: object, *, transport: str) -> None:
        with self._lock:
            self.inside += 1
        assert self.go_on.wait(PATIENCE_SECONDS)
        super().offer(decoded, transport=transport)  # type: ignore[arg-type]


class Refusing:
    """What the listeners need of a worker."""

    def refuse(self, transport: str, reason: str) -> None: ...


def test_what_is_pending_over_grpc_is_bounded_by_the_largest_request_that_the_operator_allows() -> None:
    settings = replace(
        DEFAULTS[Deployment.SIDECAR], intake=IntakeSettings(max_request_bytes=LARGEST), listen=Listen(grpc=ANY_PORT, http=ANY_PORT)
    )
    intake = OpenTracesSnapshot()
    built = build_receivers(settings, worker=cast("Worker", Refusing()), intake=otlp(intake), pages={})

    with running(built.grpc) as port, ThreadPoolExecutor(4) as senders:
        try:
            pending = [senders.submit(call, port, LARGE) for _ in range(4)]
            wait_for(lambda: intake.inside == len(pending))
            assert call(port, LARGE).code == "UNAVAILABLE"
        finally:
            intake.go_on.set()
        assert [each.result().code for each in pending] == ["OK"] * 4
