"""End to end: the SDKs and the Collector that the world sends with, against a sidecar in a process of its own.

In: programs that are built under ``.build/e2e`` by ``make e2e``. Out: whether each span that a sender did not itself give up is judged,
once, as in its own process. May not: reach into the sidecar, but for when its judging begins.
"""
