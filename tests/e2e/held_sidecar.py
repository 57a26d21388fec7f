"""Runs a sidecar that waits for SIGUSR1 at one point of its start, as machines make it wait by chance.

``python -m tests.e2e.held_sidecar judging OPTIONS`` listens and does not judge: its queue fills and it refuses, as one that can't keep up.
``python -m tests.e2e.held_sidecar listening OPTIONS`` is loaded and does not listen, and says that it is standing by. Released, it listens
at once on any machine, before senders have tried as often as they will.

OPTIONS are those of ``otel-toolcall-eval serve``. Held from outside: a sidecar has no such switch, and needs none.
"""

from __future__ import annotations

import json
import signal
import sys

from otel_toolcall_eval.__main__ import main
from otel_toolcall_eval.engine.worker import Worker
from otel_toolcall_eval.sidecar.sidecar import Sidecar


def hold_judging() -> None:
    """Let a worker's thread start when the signal comes, and not before."""
    start = Worker.start

    def start_later(self: Worker) -> None:
        signal.signal(signal.SIGUSR1, lambda _number, _frame: start(self))

    Worker.start = start_later  # type: ignore[method-assign]  # this program is there for that


def hold_listening() -> None:
    """Let a sidecar start when the signal comes, and not before."""
    start = Sidecar.start
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # it may come before it is waited for

    def start_later(self: Sidecar) -> None:
        sys.stdout.write(json.dumps({"event": "standing by"}) + "\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGUSR1})
        start(self)

    Sidecar.start = start_later  # type: ignore[method-assign]  # likewise


if __name__ == "__main__":
    {"judging": hold_judging, "listening": hold_listening}[sys.argv[1]]()
    sys.exit(main(["serve", *sys.argv[2:]]))
