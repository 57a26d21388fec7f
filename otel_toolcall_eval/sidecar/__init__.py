"""The service that receives OTLP beside an agent: how it is built, run and shut down, its pages, its control listener, its journal.

In: settings. Out: a running service. May not: hold a rule about spans, calls or scores; those stand in the rooms below.
"""
