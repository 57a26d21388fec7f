"""Runs a sidecar: starts the receivers, waits for a signal, shuts down so that nothing that was accepted goes unjudged."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from otel_toolcall_eval.errors import ToolCallEvalError
from otel_toolcall_eval.settings.criteria_source import files_of
from otel_toolcall_eval.settings.place import Findings
from otel_toolcall_eval.wiring import SECOND_NS, build_sidecar, reload_criteria

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from otel_toolcall_eval.emission.console import ConsoleEmitter
    from otel_toolcall_eval.settings.service import Address, Settings
    from otel_toolcall_eval.wiring import SidecarParts

_logger = logging.getLogger(__name__)

WATCH_SECONDS = 2.0
"""How often criteria files, certificates and tokens are looked at.

Polling sees what a Kubernetes ConfigMap does (a link is swapped), which inotify misses.
"""

DRAIN_SHARE = 0.3
"""Of the shutdown time, for requests that are under way; the rest is for judging and sending."""

FORWARD_SHARE = 0.6
"""Of what is left once all is judged, for passing on what waits; the rest is for sending our own telemetry."""

Fingerprint = tuple[tuple[str, int, int, int], ...]


@dataclass(slots=True)
class _Signals:
    """What signal handlers leave for the main thread; they do nothing else."""

    wake: threading.Event = field(default_factory=threading.Event)
    stop: bool = False
    reload: bool = False


class Sidecar:
    """A sidecar in this process. ``start``, ``run`` and ``stop`` belong to one thread."""

    def __init__(self, settings: Settings, *, console: ConsoleEmitter | None = None) -> None:
        """Build all parts; nothing listens yet.

        Raises:
            SettingsError: settings or criteria can't be used.
        """
        self.settings = settings
        self._draining = False
        self._started = False
        self._signals = _Signals()
        self.parts: SidecarParts = build_sidecar(settings, console=console, problems=self._problems, alive=self._dead)
        self._fingerprint = criteria_fingerprint(settings)

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Return where ``grpc``, ``http`` and, if there is one, ``control`` listen; with the true ports once started."""
        receivers = self.parts.receivers
        ports = {"grpc": receivers.grpc.port, "http": receivers.http.port, "control": receivers.control and receivers.control.port}
        return {name: replace(one.address, port=ports[name] or 0) for name, one in self.settings.listen.listeners.items()}

    def start(self) -> None:
        """Judge and listen.

        Raises:
            SettingsError: a port can't be had; nothing is left running.
        """
        try:
            if self.parts.forwarder is not None:
                self.parts.forwarder.start()
            for receiver in self.parts.receivers.listening:
                receiver.start()
            # Last, so that a start that fails leaves the journal as it was: the worker would take it up, and judge all of it at the end.
            self.parts.worker.start()
        except BaseException:
            self.stop(timeout_seconds=1.0)
            raise
        self._started = True

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Take SIGTERM, SIGINT and SIGHUP from here on.

        To be entered before ``start``: a sender may have been answered by the time that a signal comes, and PID 1 is not even
        sent a signal that it has no handler for.
        """
        handlers = {signal.SIGTERM: self._on_stop, signal.SIGINT: self._on_stop, signal.SIGHUP: self._on_reload}
        previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def run(self) -> bool:
        """Serve until SIGTERM or SIGINT; reload criteria, certificates and tokens on SIGHUP and when their files change.

        A second SIGTERM ends at once.

        Returns:
            False if ending took longer than allowed, so that something may not have been judged or sent.
        """
        try:
            while not self._signals.stop:
                self._signals.wake.wait(WATCH_SECONDS)
                self._signals.wake.clear()
                self._watch()
                self.parts.receivers.protection.refresh()
                if self.parts.forwarder is not None:
                    self.parts.forwarder.refresh()
        finally:
            done = self.stop(timeout_seconds=self.settings.shutdown_timeout_ns / SECOND_NS)
        return done

    def stop(self, *, timeout_seconds: float) -> bool:
        """Stop intake, judge what is open, send it; False if that took longer than allowed. May be called again."""
        deadline = time.monotonic() + timeout_seconds
        self._draining = True
        self.parts.receivers.grpc.set_serving(serving=False)
        for receiver in self.parts.receivers.listening:
            receiver.stop(grace_seconds=max(0.0, min(timeout_seconds * DRAIN_SHARE, deadline - time.monotonic())))
        judged = self.parts.worker.shutdown(max(0.0, deadline - time.monotonic()))
        if self.parts.forwarder is not None:  # behind the verdicts, which roots wait for; before the last metrics, which count what is lost
            judged &= self.parts.forwarder.stop(max(0.0, deadline - time.monotonic()) * FORWARD_SHARE)
        sent = self.parts.telemetry.shutdown(max(0.1, deadline - time.monotonic()))
        if self.parts.journal is not None:
            self.parts.journal.close(delivered=judged and sent, ended=not self.parts.worker.alive)
        return judged and sent

    def _watch(self) -> None:
        asked, self._signals.reload = self._signals.reload, False
        now = criteria_fingerprint(self.settings)
        if not asked and now == self._fingerprint:
            return
        self._fingerprint = now
        try:
            loaded = reload_criteria(self.settings, self.parts.worker)
        except ToolCallEvalError as error:
            self.parts.reloads.rejected()
            _logger.error(  # noqa: TRY400 - the message says all; a traceback would bury it
                "criteria could not be reloaded; the old ones stay in force", extra={"problems": [str(p) for p in error.problems]}
            )
        else:
            self.parts.reloads.loaded()
            _logger.info("criteria reloaded; settings take a restart", extra={"criteria": len(loaded.sets)})

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._signals.stop:
            os._exit(1)  # asked twice: whoever asks knows that something may be lost
        self._signals.stop = True
        self._signals.wake.set()

    def _on_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._signals.reload = True
        self._signals.wake.set()

    def _problems(self) -> Sequence[str]:
        if self._draining:
            return ["draining"]
        if not self._started:
            return ["starting"]
        forwarder, journal = self.parts.forwarder, self.parts.journal
        full = ["forward queue"] if forwarder is not None and forwarder.is_full else []
        return [*self._dead(), *full, *(["journal"] if journal is not None and journal.has_problem() else [])]

    def _dead(self) -> Sequence[str]:
        if not self._started or self._draining:
            return []
        parts = {"worker": self.parts.worker, "forwarding": self.parts.forwarder}
        return [name for name, part in parts.items() if part is not None and not part.alive]


def criteria_fingerprint(settings: Settings) -> Fingerprint:
    """Return what changes when a criteria file does: names, times and sizes of all of them. Files that can't be read are left out."""
    found: Mapping[str, os.stat_result] = {
        str(path): status for source in settings.criteria for path in files_of(source, Findings()) if (status := _status(path)) is not None
    }
    return tuple((name, status.st_mtime_ns, status.st_size, status.st_ino) for name, status in sorted(found.items()))


def _status(path: os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - follows links, as Path.stat does, and takes any path
    except OSError:
        return None
