"""What runs inside the agent's process: the span processor, expectations, the instrumentor, the library, the pytest plugin.

In: the SDK's hooks, finished spans, criteria. Out: verdicts, as telemetry and as values. May not: block or break the agent, configure
logging, or replace a global provider.
"""
