"""Forwards what was received to a downstream OTLP endpoint.

In: the bodies of requests. Out: the same bodies, sent. May not: evaluate, change what it does not have to, import another edge.
"""
