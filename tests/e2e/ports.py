"""Ports that are ours before anybody listens there, and stay ours while nobody does."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def held_ports(number: int) -> Iterator[list[str]]:
    """Yield addresses at which one process after the other may listen; whoever connects in between is refused.

    A socket that is bound and never listens keeps the port from being given to others. With SO_REUSEADDR on both, as all our servers have
    it, Linux lets a second socket listen beside it; where none may, the ports are let go of, and most likely free.
    """
    with ExitStack() as stack:
        addresses = []
        for _ in range(number):
            holder = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            addresses.append(f"127.0.0.1:{holder.getsockname()[1]}")
        if sys.platform != "linux":
            stack.close()
        yield addresses
