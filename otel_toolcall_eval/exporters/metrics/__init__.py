"""Scores and counts as OpenTelemetry metrics, by OTLP and on the ``/metrics`` page."""
