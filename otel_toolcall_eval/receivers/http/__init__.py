"""OTLP over HTTP, and the pages that share its listener."""
