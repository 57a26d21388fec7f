"""Reads tool calls out of a trace's spans.

In: the spans of one trace, in any order. Out: an Extraction: calls, ignored spans with reasons, hints. May not: do I/O,
read a clock, evaluate anything; it knows conventions only as data (``dialects.json``).
"""
