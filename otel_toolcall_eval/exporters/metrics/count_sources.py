"""Counts that are not the pipeline's: criteria in force and their reloads, and the memory of this process."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.events.attributes import clean_name
from otel_toolcall_eval.exporters.names import CRITERIA_INFO, CRITERIA_RELOADS, PROCESS_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_toolcall_eval.model.criteria import CriteriaSet

    CountKey = tuple[str, tuple[tuple[str, str], ...]]


STATM: Final = Path("/proc/self/statm")
_RESIDENT: Final = 1  # the second of its numbers, in pages: proc(5)


class CriteriaInfo:
    """Shows the criteria sets in force."""

    def __init__(self, in_force: Callable[[], Sequence[CriteriaSet]]) -> None:
        """Take what returns the sets; it is called from exporter threads."""
        self._in_force = in_force

    def counts(self) -> dict[CountKey, int]:
        """Return ``toolcall_eval.criteria.info``, of as many sets as criteria have names in metrics; one ``_OTHER`` stands for the rest."""
        sets, limit = self._in_force(), names.CRITERIA.limit
        shown = [(item.name, item.version) for item in sets[:limit]] + [(names.OTHER, names.OTHER)] * bool(sets[limit:])
        return {
            (CRITERIA_INFO.name, (("criteria", clean_name(name)), ("criteria.version", clean_name(version)))): 1 for name, version in shown
        }


class CriteriaReloads:
    """Counts how often criteria were read again. Added to by one thread, read by any."""

    def __init__(self) -> None:
        """Start with none; both results are shown from the start, so that the first rejection is an increase."""
        self._results = Counter({"loaded": 0, "rejected": 0})

    def loaded(self) -> None:
        """Count one whose criteria are in force now."""
        self._results["loaded"] += 1

    def rejected(self) -> None:
        """Count one that left the old criteria in force."""
        self._results["rejected"] += 1

    def counts(self) -> dict[CountKey, int]:
        """Return ``toolcall_eval.criteria.reloads``."""
        return {(CRITERIA_RELOADS.name, (("result", result),)): number for result, number in self._results.items()}


class ProcessMemory:
    """Reads the resident memory when it is asked to, from any thread. Cost: 10 us."""

    def __init__(self, statm: Path = STATM) -> None:
        """Choose the file; for tests."""
        self._statm = statm

    def counts(self) -> dict[CountKey, int]:
        """Return ``process.memory.usage``; nothing where the system has no such file (macOS): its greatest memory would mislead."""
        try:
            pages = int(self._statm.read_text(encoding="ascii").split()[_RESIDENT])
        except (OSError, ValueError, IndexError):
            return {}
        return {(PROCESS_MEMORY.name, ()): pages * os.sysconf("SC_PAGE_SIZE")}
