"""Names of what an operator watches beside scores: what is judged, by what, and memory. Beside ``names``, under the same promise."""

from __future__ import annotations

from typing import Final

from otel_toolcall_eval.exporters.metrics.instrument import Attribute, Instrument, InstrumentKind, NameOrigin
from otel_toolcall_eval.exporters.names import CRITERIA, EVALUATED_SERVICE, RESULT, SIGNAL

EVALUATED_SERVICE_VERSION: Final = Attribute(name="toolcall_eval.service.version", limit=1000)  # of all services together
CRITERIA_VERSION: Final = Attribute(name="toolcall_eval.criteria.version")  # made by us

SERVICE_INFO: Final = Instrument(
    name="toolcall_eval.service.info",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="{service}",
    description="1 for each service whose traces are judged, with the version that was seen last.",
    attributes=(EVALUATED_SERVICE, EVALUATED_SERVICE_VERSION),
)
CRITERIA_INFO: Final = Instrument(
    name="toolcall_eval.criteria.info",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="{criteria}",
    description="1 for each criteria set that traces are judged by now, with its version.",
    attributes=(CRITERIA, CRITERIA_VERSION),
)
CRITERIA_RELOADS: Final = Instrument(
    name="toolcall_eval.criteria.reloads",
    kind=InstrumentKind.OBSERVABLE_COUNTER,
    unit="{reload}",
    description="Times that criteria were read again, by what became of it: loaded, or rejected, so that the old ones stay in force.",
    attributes=(RESULT,),
)
QUEUE_MEMORY: Final = Instrument(
    name="toolcall_eval.queue.memory",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="By",
    description="Memory that requests take which wait to be judged, by the estimate that limits.queue_bytes bounds.",
)
PROCESS_MEMORY: Final = Instrument(
    name="process.memory.usage",
    kind=InstrumentKind.OBSERVABLE_UP_DOWN_COUNTER,
    unit="By",
    description="The amount of physical memory in use.",
    origin=NameOrigin.CONVENTIONS,
)
EXPORT_QUEUE: Final = Instrument(
    name="toolcall_eval.export.queue",
    kind=InstrumentKind.OBSERVABLE_GAUGE,
    unit="By",
    description="What waits of our own log events and spans for the OTLP endpoint; beyond 32 MiB of one signal they are dropped.",
    attributes=(SIGNAL,),
)

OPERATION_OBSERVED: Final = (SERVICE_INFO, CRITERIA_INFO, CRITERIA_RELOADS, QUEUE_MEMORY, PROCESS_MEMORY, EXPORT_QUEUE)
