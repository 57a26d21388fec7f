"""How the variables of OpenTelemetry want metrics exported. Apart from what exports, which needs the SDK's metrics.

The variables ``OTEL_METRIC_EXPORT_INTERVAL`` (milliseconds, 60,000) and ``OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE``
(``cumulative``, ``delta``, ``lowmemory``) keep their meaning. Source: OpenTelemetry specification, "Metrics SDK" and "OTLP Exporter".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
TEMPORALITY: Final = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_DEFAULT_INTERVAL_MS: Final = 60_000.0


class Temporality(StrEnum):
    """Since when exported sums count; the words of ``OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE``."""

    CUMULATIVE = "cumulative"  # since the start
    DELTA = "delta"  # since the last export
    LOWMEMORY = "lowmemory"  # as delta, but what is observed counts since the start


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """How metrics are exported."""

    interval_seconds: float = _DEFAULT_INTERVAL_MS / 1000
    temporality: Temporality = Temporality.CUMULATIVE

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> ExportPlan:
        """Read the variables; empty ones are not set.

        Raises:
            SettingsError: a value can't be used.
        """
        interval = environ.get(INTERVAL, "").strip() or str(_DEFAULT_INTERVAL_MS)
        try:
            milliseconds = float(interval)
        except ValueError:
            milliseconds = math.nan
        if not 0 < milliseconds <= TIMEOUT_MAX * 1000:
            raise SettingsError(where=INTERVAL, what=f"{interval!r} is no interval", fix="give milliseconds, such as 60000")
        preference = environ.get(TEMPORALITY, "").strip() or Temporality.CUMULATIVE
        try:
            temporality = Temporality(preference.lower())
        except ValueError:
            fix = "use cumulative, delta or lowmemory"
            raise SettingsError(where=TEMPORALITY, what=f"{preference!r} is no preference", fix=fix) from None
        return cls(interval_seconds=milliseconds / 1000, temporality=temporality)
