"""Keeps what was taken in and what was decided in a file, so that both survive the process.

In: requests and decisions, from the worker's thread alone. Out: the same, in the same order, at the next start.
May not: evaluate, group, or decide when anything is due; hold an answer back for longer than a commit takes.
"""
