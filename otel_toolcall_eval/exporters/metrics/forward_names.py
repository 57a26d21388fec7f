"""Names of what is counted of passing on. Beside ``names``, under the same promise."""

from __future__ import annotations

from typing import Final

from otel_toolcall_eval.exporters.metrics.instrument import Instrument, InstrumentKind
from otel_toolcall_eval.exporters.names import RESULT, SIGNAL

FORWARD_REQUESTS: Final = Instrument(
    name="toolcall_eval.forward.requests",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{request}",
    description="Requests that were to be passed on, by what became of them: delivered, refused, expired or lost.",
    attributes=(RESULT, SIGNAL),
)
FORWARD_RETRIES: Final = Instrument(
    name="toolcall_eval.forward.retries",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{request}",
    description="Tries that failed and are made again.",
    attributes=(SIGNAL,),
)
FORWARD_REJECTED: Final = Instrument(
    name="toolcall_eval.forward.rejected",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{item}",
    description="Spans, log records and data points that the downstream rejected of requests that it took.",
    attributes=(SIGNAL,),
)
FORWARD_QUEUE: Final = Instrument(
    name="toolcall_eval.forward.queue",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="By",
    description="What waits to be passed on.",
)
FORWARD_DELAY: Final = Instrument(
    name="toolcall_eval.forward.delay",
    kind=InstrumentKind.HISTOGRAM,
    unit="s",
    description="Time that a request waited until it was delivered.",
    bounds=(0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)

FORWARD_RECORDED: Final = (FORWARD_DELAY,)
FORWARD_OBSERVED: Final = (FORWARD_REQUESTS, FORWARD_RETRIES, FORWARD_REJECTED, FORWARD_QUEUE)
