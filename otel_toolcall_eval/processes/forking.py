"""Makes the other processes: forks them, before there is any thread, and lets go in each of what is the others'."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.processes.channel import Channel, pair
from otel_toolcall_eval.processes.link import Link

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    Run = Callable[[Channel, int], bool]
    Pairs = Sequence[tuple[socket.socket, socket.socket]]

_logger = logging.getLogger(__name__)

_RUNS: Final = "it runs"
_ABANDONED: Final = 1
_FAILED: Final = 2
_SET_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
_SET_NAME: Final = 15  # PR_SET_NAME
_LOOK_SECONDS: Final = 0.01
_NAMED_SIGNALS: Final = frozenset(signal.Signals)  # of those for real-time uses the first and the last


class Process:
    """A process of ours. Not ``multiprocessing``'s, which joins all at the end of the first one, whether or not they were told to end."""

    def __init__(self, pid: int) -> None:
        """Take the ID that fork returned."""
        self.pid = pid
        self.how = _RUNS
        self._lock = threading.Lock()  # it is waited for once

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for its end; False if it does not come in time."""
        deadline = time.monotonic() + timeout_seconds
        while not self._has_ended(os.WNOHANG):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def kill(self) -> None:
        """End it, and wait for that."""
        if not self._has_ended(os.WNOHANG):
            os.kill(self.pid, signal.SIGKILL)
            self._has_ended(0)

    def _has_ended(self, options: int) -> bool:
        with self._lock:
            if self.how == _RUNS:
                self.how = self._how(options)
            return self.how != _RUNS

    def _how(self, options: int) -> str:
        try:
            ended, status = os.waitpid(self.pid, options)
        except ChildProcessError:  # the system, or code beside ours, has heard of its end in our place
            return "it has ended, and somebody else was told how"
        if not ended:
            return _RUNS
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return f"exit code {code}"
        return signal.Signals(-code).name if -code in _NAMED_SIGNALS else f"signal {-code}"


def fork(number: int, run: Run, *, limit_bytes: int) -> Sequence[Link]:
    """Fork processes, each of which runs ``run`` with its end of a channel and its index, and ends when that returns.

    Args:
        number: how many.
        run: returns False if the first process is gone.
        limit_bytes: of requests that all of them together may leave unanswered.

    Raises:
        SettingsError: the system has no fork, or no room for more processes.
    """
    if not hasattr(os, "fork"):
        raise SettingsError(where="workers", what="this system can't fork processes", fix="set workers: 1")
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited from some supervisors: then nobody is told how a process ended
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pairs: list[tuple[socket.socket, socket.socket]] = []
    processes: list[Process] = []
    gc.freeze()  # what is here by now is never looked at by a child's collector, and stays in shared pages
    try:
        pairs.extend(pair() for _ in range(number))
        processes.extend(_forked(run, pairs, index) for index in range(number))
    except OSError as error:
        for ours, _ in pairs:
            ours.close()
        for process in processes:
            process.kill()
        raise SettingsError(where="workers", what=f"no further process can be had ({error.strerror})", fix="set fewer workers") from error
    finally:
        for _, theirs in pairs:
            theirs.close()
    # Only now: a channel holds its socket twice, and a child could not let go of that.
    return [
        Link(Channel(ours), process, index, limit_bytes=limit_bytes // number)
        for index, ((ours, _), process) in enumerate(zip(pairs, processes, strict=True))
    ]


def _forked(run: Run, pairs: Pairs, index: int) -> Process:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return Process(pid)
    try:
        _become(run, pairs, index, parent)
    except BaseException as error:  # noqa: BLE001 - nothing of the first process's call may go on here
        _logger.critical("a process that judges failed; please report it", extra={"error_type": type(error).__qualname__})
        os._exit(_FAILED)


def _become(run: Run, pairs: Pairs, index: int, parent: int) -> NoReturn:
    # A terminal and many supervisors signal all processes of a group; only the first one knows when these are to end.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _end_with(parent, name=f"judge-{index + 1}")
    _tell_who_logs(index)
    for position, (ours, theirs) in enumerate(pairs):
        ours.close()  # an end that is open somewhere would never tell its other that we are gone
        if position != index:
            theirs.close()
    ended = run(Channel(pairs[index][1]), index)
    logging.shutdown()
    os._exit(0 if ended else _ABANDONED)  # threads that hang, of an exporter say, keep nobody alive


def _end_with(parent: int, *, name: str) -> None:
    """Have the system kill this process when the first one ends: one that is starting or ending does not read its channel. And name it."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        ctypes.CDLL(None).prctl(_SET_NAME, name.encode())
    if os.getppid() != parent:  # it has ended before we said so
        os._exit(_ABANDONED)


def _tell_who_logs(index: int) -> None:
    """Add to each log line which process wrote it."""
    make = logging.getLogRecordFactory()

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:  # noqa: ANN401 - the factory's own signature
        made = make(*args, **kwargs)
        made.worker = index + 1
        return made

    logging.setLogRecordFactory(record)
