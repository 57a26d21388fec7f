"""Settings and criteria: what users write, checked once and turned into our own values.

In: files, environment variables, mappings. Out: frozen settings, criteria sets, checks. May not: evaluate, receive, emit, or fail late.
"""
