"""OTLP over gRPC."""
