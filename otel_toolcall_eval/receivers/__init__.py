"""What comes in: OTLP over gRPC and HTTP, and recorded traces from files.

In: requests and files. Out: decoded spans and log records, for the worker. May not: evaluate, hold spans back, or import an exporter.
"""
