"""Runs a sidecar: starts the receivers, waits for a signal, shuts down so that everything that was accepted is evaluated."""

from __future__ import annotations

import logging
import os
import signal
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import SettingsError, ToolCallEvalError
from otel_toolcall_eval.settings.build_pipeline import SECOND_NS
from otel_toolcall_eval.settings.criteria_file import files_of
from otel_toolcall_eval.settings.diagnostics import Diagnostics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType

    from otel_toolcall_eval.exporters.console import ConsoleEmitter
    from otel_toolcall_eval.settings.service import Settings
    from otel_toolcall_eval.settings.types import Address
    from otel_toolcall_eval.sidecar.build import SidecarParts

_logger = logging.getLogger(__name__)

WATCH_SECONDS = 2.0
"""How often criteria files, certificates and tokens are looked at.

Polling sees what a Kubernetes ConfigMap does (a link is swapped), which inotify misses.
"""

DRAIN_SHARE = 0.3
"""Of the shutdown time, for requests that are under way; the rest is for evaluating and sending."""

FORWARD_SHARE = 0.6
"""Of the time that is left once all is evaluated, for forwarding what is queued; the rest is for sending our own telemetry."""

_LATER = ("jinja2", "prometheus_client")
"""Of the extra, what is loaded after the start. That it is missing is said at the start all the same."""

Fingerprint = tuple[tuple[str, int, int, int], ...]


class SignalWakeup:
    """Wakes the main thread. ``notify`` is for signal handlers, too.

    A handler interrupts the main thread anywhere, so it must not take a lock that the main thread may hold: setting an Event while the main
    thread waits for it, or clears it, can deadlock. ``SimpleQueue`` is reentrant.
    """

    def __init__(self) -> None:
        """Start without notifications."""
        self._notifications: SimpleQueue[None] = SimpleQueue()

    def notify(self) -> None:
        """Wake the waiting thread, or the next one to wait."""
        self._notifications.put(None)

    def wait(self, seconds: float) -> None:
        """Wait for a notification, at most ``seconds``; several notifications count as one."""
        with suppress(Empty):
            self._notifications.get(timeout=seconds)
            while True:
                self._notifications.get_nowait()


@dataclass(slots=True)
class _Signals:
    """What signal handlers leave for the main thread; they do nothing else."""

    wakeup: SignalWakeup = field(default_factory=SignalWakeup)
    stop: bool = False
    reload: bool = False


class Sidecar:
    """A sidecar in this process. ``start``, ``run`` and ``stop`` belong to one thread.

    Attributes:
        unevaluated: traces that were open when ending took longer than allowed.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        console: ConsoleEmitter | None = None,
        loading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Build all parts; nothing listens yet.

        Args:
            settings: all of them.
            console: writes verdicts to the standard output; None for none.
            loading: is around the loading of modules once it runs.

        Raises:
            SettingsError: settings or criteria can't be used, or a part of the ``sidecar`` extra is missing.
        """
        load_parts()
        from otel_toolcall_eval.sidecar import build as building  # noqa: PLC0415 - the extra is needed from here on only

        self.settings = settings
        self._draining = False
        self._started = self._pages_loaded = False
        self.unevaluated = 0
        self._signals = _Signals()
        self._loading = loading
        self.parts: SidecarParts = building.build_sidecar(settings, console=console, problems=self._problems, alive=self._dead)
        self._reload = building.reload_criteria
        self._fingerprint = criteria_fingerprint(settings)

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Return where ``grpc``, ``http`` and, if there is one, ``control`` listen; with the true ports once started."""
        receivers = self.parts.receivers
        ports = {"grpc": receivers.grpc.port, "http": receivers.http.port, "control": receivers.control and receivers.control.port}
        return {name: replace(one.address, port=ports[name] or 0) for name, one in self.settings.listen.listeners.items()}

    def start(self) -> None:
        """Evaluate and listen.

        Raises:
            SettingsError: a port can't be had; nothing is left running.
        """
        try:
            if self.parts.forwarder is not None:
                self.parts.forwarder.start()
            for receiver in self.parts.receivers.listening:
                receiver.start()
            # Last, so that a start that fails leaves the journal as it was: the worker would restore it, and evaluate all of it at the end.
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
            False if ending took longer than allowed, so that something may not have been evaluated or sent.
        """
        try:
            while not self._signals.stop:
                self._signals.wakeup.wait(WATCH_SECONDS)
                self._watch()
                self.parts.receivers.protection.refresh()
                if self.parts.forwarder is not None:
                    self.parts.forwarder.refresh()
                self._load_pages()
        finally:
            done = self.stop(timeout_seconds=self.settings.shutdown_timeout_ns / SECOND_NS)
        return done

    def stop(self, *, timeout_seconds: float) -> bool:
        """Stop intake, evaluate open traces, send the verdicts; False if that took longer than allowed. May be called again."""
        deadline = time.monotonic() + timeout_seconds
        self._draining = True
        self.parts.worker.stop_scheduling()
        self.parts.receivers.grpc.set_serving(serving=False)
        for receiver in self.parts.receivers.listening:
            receiver.stop(grace_seconds=max(0.0, min(timeout_seconds * DRAIN_SHARE, deadline - time.monotonic())))
        evaluated = self.parts.worker.shutdown(max(0.0, deadline - time.monotonic()))
        self.unevaluated = 0 if evaluated else int(self.parts.worker.counts().get(("toolcall_eval.traces.active", ()), 0))
        forwarder = self.parts.forwarder  # before the last metrics, which count what is lost
        sent = forwarder is None or forwarder.stop(max(0.0, deadline - time.monotonic()) * FORWARD_SHARE)
        sent &= self.parts.telemetry.shutdown(max(0.1, deadline - time.monotonic()))
        if self.parts.journal is not None:
            self.parts.journal.close(delivered=sent, ended=not self.parts.worker.alive, timeout_seconds=deadline - time.monotonic())
        return evaluated and sent

    def _load_pages(self) -> None:
        """Load what only pages need once nobody waits for the start, and before most who look would wait for it."""
        if self._pages_loaded or self._signals.stop:
            return
        self._pages_loaded = True
        for load in self.parts.page_loaders:
            try:
                with self._loading():
                    load()
            except Exception:  # whatever a library raises costs its pages alone
                _logger.exception(
                    "a library can't be used, so some pages can't be shown; pip install --upgrade 'otel-toolcall-eval[sidecar]'"
                )

    def _watch(self) -> None:
        asked, self._signals.reload = self._signals.reload, False
        now = criteria_fingerprint(self.settings)
        if not asked and now == self._fingerprint:
            return
        self._fingerprint = now
        try:
            loaded = self._reload(self.settings, self.parts.worker.pipeline)
        except ToolCallEvalError as error:
            self.parts.reloads.rejected()
            _logger.error(  # noqa: TRY400 - the message says all; a traceback would bury it
                "criteria could not be reloaded; the old ones stay in force", extra={"problems": [str(p) for p in error.problems]}
            )
        else:
            self.parts.reloads.loaded()
            _logger.info("criteria reloaded; changing settings requires a restart", extra={"criteria": len(loaded.sets)})

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._signals.stop:
            os._exit(1)  # asked twice: whoever asks knows that something may be lost
        self._signals.stop = True
        self._signals.wakeup.notify()

    def _on_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._signals.reload = True
        self._signals.wakeup.notify()

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


def load_parts() -> None:
    """Load the modules that a sidecar needs to start. It does so when it is built; whoever wants to have it done before, here.

    Raises:
        SettingsError: a part of the ``sidecar`` extra is missing.
    """
    try:
        import otel_toolcall_eval.sidecar.build  # noqa: F401, PLC0415 - the extra is needed from here on only

        for name in _LATER:
            if find_spec(name) is None:
                raise ModuleNotFoundError(name=name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        what = f"{error.name} is not installed" if missing else f"a library can't be used ({error})"
        raise SettingsError(where="serve", what=what, fix="pip install --upgrade 'otel-toolcall-eval[sidecar]'") from error


def criteria_fingerprint(settings: Settings) -> Fingerprint:
    """Return what changes when a criteria file does: names, times and sizes of all of them. Files that can't be read are left out."""
    found: Mapping[str, os.stat_result] = {
        str(path): status
        for source in settings.criteria
        for path in files_of(source, Diagnostics())
        if (status := _status(path)) is not None
    }
    return tuple((name, status.st_mtime_ns, status.st_size, status.st_ino) for name, status in sorted(found.items()))


def _status(path: os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - follows links, as Path.stat does, and takes any path
    except OSError:
        return None
