"""What a sidecar asks for its own process: files for its connections, memory that goes back when it is free, the collector kept away."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_FILES = 65_536
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD in glibc's malloc.h
_LARGE_BYTES = 256 << 10
_YOUNG_OBJECTS = 20_000


def raise_file_limit() -> int:
    """Allow this process as many open files as it may have, and return how many; each connection is one.

    The system's default of 1,024 is for programs that use select(), and we don't. Go programs do the same by themselves.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def return_large_blocks() -> bool:
    """Have the C library give blocks from 256 KiB on back to the system as soon as they are free; False where that is impossible.

    Left alone, glibc raises that size to 32 MiB once large blocks were freed, and the memory of one large request stays with the
    process (130 MiB were measured after four requests of 64 MiB). Elsewhere (musl, macOS) this is what happens unasked.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES))
    except (AttributeError, OSError):
        return False


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the garbage collector off while modules are loaded and parts are built, all of which stay.

    In a start it looked two hundred times at objects that only become more, a tenth of the time, and found next to nothing. Only for a
    process of our own.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_what_is_loaded() -> None:
    """Have the collector never look at the objects that there are. To be called once modules are loaded, before criteria are read.

    What is garbage among them stays: 2,000 objects of classes that were made twice, half a megabyte. Looking for it took 50 ms or more.
    """
    gc.freeze()


@contextmanager
def loading_more() -> Iterator[None]:
    """Treat what is loaded later as what was loaded at the start. Only for a process that called ``collect_garbage_seldom``."""
    with without_collector():
        yield
        gc.freeze()


def collect_garbage_seldom() -> None:
    """Keep the garbage collector away from what stays, and call it after 20,000 new objects instead of 700.

    Evaluating makes some hundred objects for a trace, none of them in a cycle, and reference counts free them; the collector took a fifth
    of the time to find nothing. To be called once modules are loaded: these objects are not looked at again. Only for a process of
    our own: in the agent's, the collector is the agent's business.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])
