"""Queries the store for what the pages show."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.sidecar.admin.status.store import HistoryStore

VERDICTS_ON_A_PAGE: Final = 50
MAX_CHOICES: Final = 100
MAX_REPORTS: Final = 50  # of one trace

FILTERS: Final = ("agent", "service", "criteria", "label")

# A later report on the same trace and unit stands in place of this one.
_SUPERSEDED = "EXISTS (SELECT 1 FROM reports l WHERE l.trace_id = r.trace_id AND l.unit = r.unit AND l.number > r.number)"
_FILTERED = """
FROM verdicts v JOIN reports r ON r.number = v.report
WHERE r.number <= :until AND (:agent IS NULL OR r.agent = :agent) AND (:service IS NULL OR r.service = :service)
AND (:criteria IS NULL OR v.criteria = :criteria) AND (:label IS NULL OR v.label = :label)
"""
_VERDICTS = f"""
SELECT r.evaluated_unix_ns,
    r.trace_id, r.revision, r.agent, r.service, v.criteria, v.evaluator, v.label, v.score, v.explanation, {_SUPERSEDED}
{_FILTERED} ORDER BY r.number DESC, v.position LIMIT :limit OFFSET :offset
"""
_COUNTS = f"SELECT v.label, count(*) {_FILTERED} GROUP BY v.label"
_CHOICES: Final = {
    "agent": "SELECT agent, count(*) FROM reports WHERE agent != '' GROUP BY agent ORDER BY count(*) DESC, agent LIMIT ?",
    "service": "SELECT service, count(*) FROM reports WHERE service != '' GROUP BY service ORDER BY count(*) DESC, service LIMIT ?",
    "criteria": "SELECT criteria, count(*) FROM verdicts GROUP BY criteria ORDER BY count(*) DESC, criteria LIMIT ?",
}
_REPORTS = f"""
SELECT r.number, r.evaluated_unix_ns, r.unit, r.revision, r.agent, r.service, r.document, {_SUPERSEDED}
FROM reports r WHERE r.trace_id = ? ORDER BY r.number DESC LIMIT ?
"""  # noqa: S608 - likewise
_OF_REPORT: Final = "SELECT criteria, evaluator, label, score, explanation FROM verdicts WHERE report = ? ORDER BY position"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedReport:
    """A verdict in the list."""

    evaluated_unix_ns: int
    trace_id: str
    revision: int
    agent: str
    service: str
    criteria: str
    evaluator: str
    label: str
    score: float | None
    explanation: str
    superseded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPage:
    """Some verdicts.

    Attributes:
        counts: of all verdicts that match the filters, by label.
        until: number of the newest report on these pages; passed along, the pages stay the same while reports arrive.
    """

    verdicts: Sequence[DisplayedReport]
    counts: Mapping[str, int]
    until: int
    page: int
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownReport:
    """A report on the page of its trace. ``document`` is made by ``rows``; ``verdicts`` join its own."""

    evaluated_unix_ns: int
    unit: str
    revision: int
    agent: str
    service: str
    document: Mapping[str, Any]
    verdicts: Sequence[Mapping[str, Any]]
    superseded: bool


class History:
    """The stored verdicts. Any thread."""

    def __init__(self, store: HistoryStore) -> None:
        """Query this store."""
        self._store = store

    @property
    def failures(self) -> int:
        """Return how often something could not be written or read."""
        return self._store.failures

    def verdicts(self, filters: Mapping[str, str], *, page: int, until: int | None) -> ShownPage:
        """Return one page of the verdicts that match all ``filters``, newest first; ``page`` counts from 1, and is kept in range."""
        newest = self._number("SELECT coalesce(max(number), 0) FROM reports") if until is None else until
        asked: dict[str, object] = {name: filters.get(name) for name in FILTERS} | {"until": newest}
        counts = {str(label): number for label, number in self._store.ask(_COUNTS, asked) if isinstance(number, int)}
        pages = max(1, -(-sum(counts.values()) // VERDICTS_ON_A_PAGE))
        page = min(max(page, 1), pages)
        asked |= {"limit": VERDICTS_ON_A_PAGE, "offset": (page - 1) * VERDICTS_ON_A_PAGE}
        found = [_shown(*row) for row in self._store.ask(_VERDICTS, asked)]
        return ShownPage(verdicts=found, counts=counts, until=newest, page=page, pages=pages)

    def choices(self) -> Mapping[str, Sequence[str]]:
        """Return the values that filters may take, most frequent first."""
        return {name: [str(value) for value, _ in self._store.ask(question, (MAX_CHOICES,))] for name, question in _CHOICES.items()}

    def reports(self, trace_id: bytes) -> Sequence[ShownReport]:
        """Return the stored reports of a trace, newest first."""
        found = [self._report(*row) for row in self._store.ask(_REPORTS, (trace_id, MAX_REPORTS))]
        return [report for report in found if report is not None]

    def count(self) -> int:
        """Return how many reports are stored."""
        return self._number("SELECT count(*) FROM reports")

    def _number(self, question: str) -> int:
        found = self._store.ask(question)
        return found[0][0] if found and isinstance(found[0][0], int) else 0

    def _report(self, number: Any, *row: Any) -> ShownReport | None:  # noqa: ANN401 - as the tables say
        evaluated_unix_ns, unit, revision, agent, service, packed, superseded = row
        try:
            document = json.loads(zlib.decompress(packed))
        except (zlib.error, ValueError):  # a damaged file; the others may be whole
            return None
        rows = self._store.ask(_OF_REPORT, (number,))
        names = ("criteria", "evaluator", "label", "score", "explanation")
        return ShownReport(
            evaluated_unix_ns=evaluated_unix_ns,
            unit=unit.hex(),
            revision=revision,
            agent=agent,
            service=service,
            document=document,
            verdicts=[dict(zip(names, found, strict=True)) | more for found, more in zip(rows, document["verdicts"], strict=True)],
            superseded=bool(superseded),
        )


def _shown(*row: Any) -> DisplayedReport:  # noqa: ANN401 - as the tables say
    evaluated_unix_ns, trace_id, revision, agent, service, criteria, evaluator, label, score, explanation, superseded = row
    return DisplayedReport(
        evaluated_unix_ns=evaluated_unix_ns,
        trace_id=trace_id.hex(),
        revision=revision,
        agent=agent,
        service=service,
        criteria=criteria,
        evaluator=evaluator,
        label=label,
        score=score,
        explanation=explanation,
        superseded=bool(superseded),
    )
