"""Finds spans whose times can't be compared, because the clocks of their hosts provably disagree.

Two hosts' clocks disagree for certain if a child lies outside its parent: further than the parent is long, and by more than a
tenth of a second, which clocks that are kept in step stay below. A child that a message queue parts from its parent may begin
long after it, so for these only "before" counts.
What it can't see: clocks that disagree by less, or between hosts that no parent and child connect; a child that was detached
from its parent on purpose, to another host, and ended long after it, is taken for a clock that is ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_toolcall_eval.model.trace import Resource, Span

HOST_KEYS = ("host.id", "host.name", "k8s.node.name", "k8s.pod.uid", "container.id", "service.instance.id")
"""What tells hosts apart; the first that a resource has counts, since processes of one host share its clock."""

IN_STEP_NS = 100_000_000
PRODUCER, CONSUMER = 4, 5


def clocks_of(spans: Sequence[Span]) -> Mapping[bytes, int]:
    """Return for each span ID the number of its clock; equal numbers can be compared. Empty if no clock provably disagrees.

    Cost: linear in the resources if they are of one host, else in the spans.
    """
    if not spans or all(span.resource is spans[0].resource for span in spans):  # of one request, as most traces
        return {}
    resources = {id(span.resource): span.resource for span in spans}
    hosts = {number: _host(resource) for number, resource in resources.items()}
    if len(set(hosts.values())) < 2:  # noqa: PLR2004 - two clocks are needed to disagree
        return {}
    by_id = {span.span_id: span for span in spans}
    agree: set[frozenset[object]] = set()
    disagree: set[frozenset[object]] = set()
    for span in spans:
        parent = None if span.parent_span_id is None else by_id.get(span.parent_span_id)
        if parent is None:
            continue
        pair = frozenset((hosts[id(span.resource)], hosts[id(parent.resource)]))
        if len(pair) > 1:
            (disagree if _outside(span, parent) else agree).add(pair)
    if not disagree:
        return {}
    numbers = _groups(hosts.values(), agree - disagree)
    return {span.span_id: numbers[hosts[id(span.resource)]] for span in spans}


def _host(resource: Resource) -> object:
    for key in HOST_KEYS:
        value = resource.attributes.get(key)
        if isinstance(value, str) and value:
            return key, value
    return None


def _outside(span: Span, parent: Span) -> bool:
    """Tell whether a child lies further outside its parent than that is long."""
    room_ns = max(parent.end_unix_ns - parent.start_unix_ns, IN_STEP_NS)
    if span.start_unix_ns < parent.start_unix_ns - room_ns:
        return True
    queued = span.kind == CONSUMER or parent.kind == PRODUCER
    return not queued and span.end_unix_ns > parent.end_unix_ns + room_ns


def _groups(hosts: Iterable[object], agree: Iterable[frozenset[object]]) -> Mapping[object, int]:
    """Return a number for each host; those that agree, also by way of others, have one number."""
    leader = {host: host for host in hosts}

    def lead(host: object) -> object:
        while leader[host] != host:
            leader[host] = host = leader[leader[host]]  # half the way next time, so that a chain of hosts is not walked for each
        return host

    for one, other in agree:
        leader[lead(one)] = lead(other)
    numbers: dict[object, int] = {}
    return {host: numbers.setdefault(lead(host), len(numbers)) for host in leader}
