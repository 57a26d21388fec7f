"""OTLP bytes to spans, and replies to bytes.

In: the body of a request. Out: spans reduced to a projection, and the bytes of an answer. May not: do I/O, read a clock, log.
"""
