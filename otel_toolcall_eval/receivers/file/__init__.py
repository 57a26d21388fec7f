"""Recorded traces: OTLP as JSON, JSON lines or protobuf, gzipped or not."""
