"""From spans to traces.

In: projected spans with their arrival time. Out: traces that are due, with the reason. May not: read a clock, look at payloads.
"""
