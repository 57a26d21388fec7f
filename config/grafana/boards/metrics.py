"""The names that dashboards ask for, as Prometheus has them: from a scrape, through a Collector, or by OTLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.prometheus_names import family_name, label_name
from otel_toolcall_eval.exporters.names import InstrumentKind

if TYPE_CHECKING:
    from otel_toolcall_eval.exporters.names import Instrument

_COUNTERS: Final = frozenset({InstrumentKind.COUNTER, InstrumentKind.OBSERVABLE_COUNTER})


def metric(instrument: Instrument) -> str:
    """Return the name of a counter's or gauge's samples; of a histogram's family, whose samples add ``_bucket``, ``_count``, ``_sum``."""
    is_counter = instrument.kind in _COUNTERS
    name = family_name(
        instrument.name, unit=instrument.unit, is_gauge=instrument.kind is InstrumentKind.OBSERVABLE_GAUGE, is_counter=is_counter
    )
    return f"{name}_total" if is_counter else name


EVALUATOR: Final = label_name(names.EVALUATION_NAME.name)
LABEL: Final = label_name(names.SCORE_LABEL.name)
AGENT: Final = label_name(names.AGENT_NAME.name)
CRITERIA: Final = label_name(names.CRITERIA.name)
CRITERIA_VERSION: Final = label_name(names.CRITERIA_VERSION.name)
SERVICE: Final = label_name(names.EVALUATED_SERVICE.name)
SERVICE_VERSION: Final = label_name(names.EVALUATED_SERVICE_VERSION.name)
TOOL: Final = label_name(names.TOOL_NAME.name)
RESULT: Final = label_name(names.RESULT.name)
REASON: Final = label_name(names.REASON.name)
TRIGGER: Final = label_name(names.TRIGGER.name)
COMPLETENESS: Final = label_name(names.COMPLETENESS.name)
TRANSPORT: Final = label_name(names.TRANSPORT.name)
SIGNAL: Final = label_name(names.SIGNAL.name)
OVERFLOW: Final = "otel_metric_overflow"

SCORE: Final = metric(names.SCORE)
CRITERIA_INFO: Final = metric(names.CRITERIA_INFO)
SERVICE_INFO: Final = metric(names.SERVICE_INFO)
