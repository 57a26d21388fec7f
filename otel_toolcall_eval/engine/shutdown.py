"""How a worker ends: since when nothing falls due any more, whether its time is over, and what is left."""

from __future__ import annotations

from typing import Final

_LEAST_SECONDS: Final = 0.5  # for what comes behind judging
_LEAST_SHARE: Final = 0.1  # or so much of the time, if that is less


class ShutdownState:
    """Any thread.

    Attributes:
        time_is_over: nothing more is to be judged.
        left: once the end has begun, how many traces are still to be judged; before, None.
    """

    __slots__ = ("_frozen_ns", "left", "time_is_over")

    def __init__(self) -> None:
        """Begin as one that goes on."""
        self.reset()

    def reset(self) -> None:
        """Go on, in a child process say."""
        self._frozen_ns: int | None = None
        self.time_is_over = False
        self.left: int | None = None

    @staticmethod
    def evaluation_seconds(timeout_seconds: float) -> float:
        """Return how much of the time for ending may be taken by judging."""
        return timeout_seconds - min(_LEAST_SECONDS, _LEAST_SHARE * timeout_seconds)

    def stop_scheduling(self, now_ns: int) -> None:
        """Let nothing fall due after this moment: who is quiet because nobody listens would be judged as if nothing were missing."""
        if self._frozen_ns is None:
            self._frozen_ns = now_ns

    def cutoff_ns(self, now_ns: int) -> int:
        """Return the moment up to which traces fall due; what is still taken in after that comes at it, and waits as long as ever."""
        return now_ns if self._frozen_ns is None else min(now_ns, self._frozen_ns)

    def active(self, open_traces: int) -> int:
        """Return how many traces are open, of which so many are in the pipeline: at the end it gives all away before they are judged."""
        return open_traces if self.left is None else self.left

    def next_due_ns(self, due_ns: int | None) -> int | None:
        """Return when a trace falls due that would at ``due_ns``; None if it does not any more."""
        return None if due_ns is None or self.cutoff_ns(due_ns) < due_ns else due_ns
