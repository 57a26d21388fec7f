"""Pieces of PromQL that all dashboards and rules are made of."""

from __future__ import annotations

from typing import Final

RANGE: Final = "$__range"
"""The period that the dashboard shows."""

STEP: Final = "$__rate_interval"
"""A window behind each point of a graph: at least four scrapes, so that growth can be told."""


def select(metric: str, *matchers: str) -> str:
    """Return a selector of series; empty matchers are left out."""
    given = ", ".join(matcher for matcher in matchers if matcher)
    return f"{metric}{{{given}}}" if given else metric


def grown(series: str, window: str) -> str:
    """Return by how much counters have grown within a window, those that began inside it included.

    ``increase`` alone compares samples, so it never sees a counter's first value: the first failure of a tool, or all verdicts of the
    first minute. A series that was not there in the window before has grown by what it says now.
    """
    return f"{series} unless last_over_time({series}[{window}] offset {window}) or increase({series}[{window}])"


def total(series: str, window: str = RANGE, *by: str) -> str:
    """Return the growth of counters, summed over all labels but ``by``."""
    return f"sum{_by(*by)}({grown(series, window)})"


def share(part: str, whole: str, window: str = RANGE, *by: str) -> str:
    """Return which share of the growth of some counters is that of others: 0 if there is none of these, nothing if there is none of all."""
    everything = total(whole, window, *by)
    return f"({total(part, window, *by)} or {everything} * 0) / ({everything} > 0)"


def mean(histogram: str, window: str = RANGE, *by: str, matchers: str = "") -> str:
    """Return the mean of what a histogram recorded within a window; nothing if that was nothing."""
    recorded = total(select(f"{histogram}_count", matchers), window, *by)
    return f"{total(select(f'{histogram}_sum', matchers), window, *by)} / ({recorded} > 0)"


def quantile(fraction: float, histogram: str, window: str = STEP, *by: str, matchers: str = "") -> str:
    """Return a quantile of what a histogram recorded within a window, to the width of its buckets."""
    return f"histogram_quantile({fraction}, {total(select(f'{histogram}_bucket', matchers), window, 'le', *by)})"


def previous(expression: str) -> str:
    """Return what an expression was one period ago.

    A subquery of one step, since only that takes an offset as a whole.
    """
    return f"last_over_time(({expression})[1s:1s] offset {RANGE})"


def appeared(info: str, identity: str, version: str) -> str:
    """Return the versions that an information metric began to name within the step before, of things that had another one.

    What was not there at all before gives nothing, so that neither a first start nor a restart looks like a change.
    """
    earlier = f"last_over_time({info}[5m] offset $__interval)"
    both = f"{identity}, {version}"
    return f"group by ({both}) ({info}) unless group by ({both}) ({earlier}) and on ({identity}) group by ({identity}) ({earlier})"


def _by(*labels: str) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""
