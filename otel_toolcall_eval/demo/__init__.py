"""The sample: an agent that reports the weather, its criteria, and runs to judge.

In: a tracer provider. Out: the spans of its runs, and where its criteria lie. May not: judge anything, know a receiver.
"""
