"""The main path: groups spans into traces, decides when a trace is complete, binds criteria to it, and evaluates it.

In: decoded spans and log records, with their arrival time; criteria. Out: trace reports. May not: know a transport, a file format or an
exporter. Apart from the modules that ``docs/architecture.md`` names as edges, it may not read a clock, start a thread, or log.
"""
