"""What the pages ask: filters that hold together, pages that don't shift, revisions that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.sidecar.admin.status.history import MAX_CHOICES, VERDICTS_ON_A_PAGE, History
from otel_toolcall_eval.sidecar.admin.status.store import HistoryStore
from tests.sidecar.status.rows import NOW_NS, row, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator

PASS, FAIL, UNSURE = Label.PASS, Label.FAIL, Label.INCONCLUSIVE


@pytest.fixture
def store() -> Iterator[HistoryStore]:
    found = HistoryStore(None, traces=1000, limit_bytes=1 << 30, max_age_ns=10**15)
    yield found
    found.close()


@pytest.fixture
def history(store: HistoryStore) -> History:
    rows = [
        row(1, PASS, FAIL),
        row(2, UNSURE, agent="forecaster", service="weather", criteria="forecast"),
        row(3, FAIL, agent="forecaster", service="weather"),
        row(4, PASS, criteria="forecast", agent="", service=""),
    ]
    store.add(rows, now_unix_ns=NOW_NS)
    return History(store)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        pytest.param({}, [(4, "pass"), (3, "fail"), (2, "inconclusive"), (1, "fail"), (1, "pass")], id="none"),
        pytest.param({"label": "fail"}, [(3, "fail"), (1, "fail")], id="label"),
        pytest.param({"agent": "forecaster"}, [(3, "fail"), (2, "inconclusive")], id="agent"),
        pytest.param({"service": "order-desk"}, [(1, "fail"), (1, "pass")], id="service"),
        pytest.param({"criteria": "forecast"}, [(4, "pass"), (2, "inconclusive")], id="criteria"),
        pytest.param({"agent": "forecaster", "criteria": "forecast"}, [(2, "inconclusive")], id="two"),
        pytest.param({"agent": "forecaster", "service": "weather", "criteria": "policy", "label": "fail"}, [(3, "fail")], id="all"),
        pytest.param({"agent": "refunds", "criteria": "forecast"}, [], id="nothing fits both"),
        pytest.param({"label": "' OR 1=1 --"}, [], id="a filter is no code"),
        pytest.param({"agent": "%"}, [], id="nor a pattern"),
    ],
)
def test_all_filters_have_to_let_a_verdict_through(history: History, filters: dict[str, str], found: list[tuple[int, str]]) -> None:
    shown = history.verdicts(filters, page=1, until=None)
    assert [(int(verdict.trace_id, 16), verdict.label) for verdict in shown.verdicts] == found
    assert sum(shown.counts.values()) == len(found)


def test_choices_are_the_values_that_there_are(history: History, store: HistoryStore) -> None:
    assert history.choices() == {
        "agent": ["forecaster", "refunds"],
        "service": ["weather", "order-desk"],
        "criteria": ["policy", "forecast"],
    }
    store.add([row(number, agent=f"agent-{number}") for number in range(10, 10 + 2 * MAX_CHOICES)], now_unix_ns=NOW_NS)
    assert len(history.choices()["agent"]) == MAX_CHOICES


def test_pages_hold_every_verdict_once_though_others_come_meanwhile(history: History, store: HistoryStore) -> None:
    store.add([row(number) for number in range(100, 100 + 2 * VERDICTS_ON_A_PAGE)], now_unix_ns=NOW_NS)
    first = history.verdicts({}, page=1, until=None)
    assert (first.page, first.pages, len(first.verdicts)) == (1, 3, VERDICTS_ON_A_PAGE)
    store.add([row(number) for number in range(300, 310)], now_unix_ns=NOW_NS)
    rest = [history.verdicts({}, page=page, until=first.until) for page in (2, 3)]
    seen = [verdict.trace_id for shown in (first, *rest) for verdict in shown.verdicts]
    assert len(seen) == 2 * VERDICTS_ON_A_PAGE + 5
    assert not {f"{number:032x}" for number in range(300, 310)} & set(seen)


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (2, 1), (10**18, 1), (1, 1)])
def test_a_page_that_there_is_not_is_the_nearest(history: History, asked: int, given: int) -> None:
    assert history.verdicts({}, page=asked, until=None).page == given


def test_nothing_remembered_is_one_empty_page(store: HistoryStore) -> None:
    shown = History(store).verdicts({}, page=1, until=None)
    assert (shown.verdicts, shown.counts, shown.until, shown.pages) == ([], {}, 0, 1)
    assert History(store).reports(trace_id(1)) == []


def test_a_later_report_supersedes_the_earlier_ones_of_its_trace(history: History, store: HistoryStore) -> None:
    store.add([row(2, PASS, revision=1)], now_unix_ns=NOW_NS)  # type: ignore[arg-type]
    shown = history.verdicts({}, page=1, until=None).verdicts
    assert [(verdict.revision, verdict.superseded) for verdict in shown if verdict.trace_id == f"{2:032x}"] == [(1, False), (0, True)]
    assert [(report.revision, report.superseded) for report in history.reports(trace_id(2))] == [(1, False), (0, True)]


def test_a_report_that_is_damaged_costs_no_other_one(history: History, store: HistoryStore) -> None:
    store.add([row(1, PASS, revision=1)], now_unix_ns=NOW_NS)  # type: ignore[arg-type]
    store.ask("UPDATE reports SET document = x'00' WHERE revision = 1")
    assert [report.revision for report in history.reports(trace_id(1))] == [0]
