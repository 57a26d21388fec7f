"""All connections of an HTTP receiver: how many there may be, and which one has to go when one more comes.

A connection costs a file, and where files run out nobody is served, gRPC's clients included. What goes first is whoever keeps us waiting:
clients that have not finished a request, then those that have none to send; never one whose request we have and have not answered.
Rejected: refusing newcomers alone (a few hundred sockets that do nothing would keep everybody out), a limit for each address (behind a
proxy or a Kubernetes service all senders have one).
Threads: the receiver's event loop only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

_MOST_LINGERING = 64
_PATIENCE_SECONDS = 2.0  # a client that has kept us waiting for less is not slow yet


class PooledConnection(Protocol):
    """One connection."""

    @property
    def request_is_here(self) -> bool:
        """Tell whether a request has come in whole and is not answered yet."""
        ...

    def cut(self) -> None:
        """Close the connection at once."""
        ...


class ConnectionPool:
    """Keeps the connections of one receiver in the order in which they keep us waiting."""

    def __init__(self, most: int) -> None:
        """Allow ``most`` connections."""
        self._most = most
        self._unfinished: OrderedDict[PooledConnection, float] = (
            OrderedDict()
        )  # since when it owes us the rest of a request, or its first one
        self._idle: OrderedDict[PooledConnection, float] = OrderedDict()  # since when its last request is answered
        self._lingering: set[PooledConnection] = set()

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._unfinished) + len(self._idle)

    def admit(self, member: PooledConnection, *, now: float) -> bool:
        """Take a new connection in, in place of another if need be; False if there is no place.

        Args:
            member: the connection.
            now: monotonic time in seconds.
        """
        if len(self) >= self._most and not (self._make_room(self._unfinished, now) or self._make_room(self._idle, now)):
            return False
        self._unfinished[member] = now
        return True

    def begins(self, member: PooledConnection, *, now: float) -> None:
        """Note that an idle connection has sent the first bytes of a request."""
        if self._idle.pop(member, None) is not None:
            self._unfinished[member] = now

    def is_answered(self, member: PooledConnection, *, now: float) -> None:
        """Note that its request is answered."""
        if self._unfinished.pop(member, None) is not None or self._idle.pop(member, None) is not None:
            self._idle[member] = now

    def keep_for_response(self, member: PooledConnection) -> bool:
        """Tell whether a connection that was turned away may stay open for the moment that it takes to read why."""
        self.leave(member)
        if len(self._lingering) >= _MOST_LINGERING:
            return False
        self._lingering.add(member)
        return True

    def leave(self, member: PooledConnection) -> None:
        """Note that a connection is closed."""
        self._lingering.discard(member)
        self._unfinished.pop(member, None)
        self._idle.pop(member, None)

    def _make_room(self, among: OrderedDict[PooledConnection, float], now: float) -> bool:
        """Cut the connection that has kept us waiting longest, if one has for long enough."""
        for member, since in among.items():
            if now - since < _PATIENCE_SECONDS:
                return False
            if not member.request_is_here:
                self.leave(member)
                member.cut()
                return True
        return False
