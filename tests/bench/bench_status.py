"""What the status page costs: noting a report on the judging thread, and making a row of it on another, against judging the trace."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.otlp.json_traces import decode_traces
from otel_toolcall_eval.settings.build_pipeline import build_pipeline
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.sidecar.admin.status import recent as recent_module
from otel_toolcall_eval.sidecar.admin.status.recent import PASSING_WAITING, RecentReports
from otel_toolcall_eval.sidecar.admin.status.store import HistoryStore
from tests.sidecar.status.rows import TELL
from tests.status_traffic import CRITERIA, Call, trace

if TYPE_CHECKING:
    from pathlib import Path

    from otel_toolcall_eval.model.score import TraceReport

TRACES = 2_000
CALLS: list[Call] = [("get_order", {"order_id": "A-7"}, {"total": 20}), ("check_stock", {"order_id": "A-7"}, {"stock": 3})]
CALLS += [("refund_order", {"order_id": "A-7", "amount": 20}, {"status": "refunded"})]
CALLS += [(f"search_{number}", {"q": "x" * 200}, {"found": number}) for number in range(6)]


def judged(folder: Path) -> tuple[list[TraceReport], float]:
    """Return reports on traces of ten spans that four evaluators judge, and the CPU seconds that judging one took."""
    (folder / "criteria.yaml").write_text(CRITERIA, encoding="utf-8")
    loaded = load_criteria([CriteriaSource(path=folder / "criteria.yaml")])
    pipeline = build_pipeline(load_settings(None, {}, Deployment.SIDECAR), loaded)
    for number in range(TRACES):
        request = trace(number, service="order-desk", agent="refunds", calls=CALLS)
        pipeline.add(decode_traces(json.dumps(request).encode(), pipeline.projection).spans, now_ns=0, transport="bench")
    began = time.thread_time()
    reports = list(pipeline.drain(now_ns=1))
    return reports, (time.thread_time() - began) / TRACES


@pytest.mark.parametrize("kept", ["memory", "file"])
def test_cost_of_a_trace(tmp_path: Path, kept: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "BATCH_SECONDS", 3600.0)  # rows are made where they are measured
    reports, judging = judged(tmp_path)
    path = None if kept == "memory" else tmp_path / "status.db"
    recent = RecentReports(HistoryStore(path, traces=1000, limit_bytes=16 << 20, max_age_ns=10**18), tell=TELL)
    noting = rows = 0.0
    for begin in range(0, TRACES, PASSING_WAITING):
        began = time.thread_time()
        for report in reports[begin : begin + PASSING_WAITING]:
            recent.emit(report)
        noted = time.thread_time()
        recent.settle()
        noting, rows = noting + noted - began, rows + time.thread_time() - noted
    recent.shutdown(30)
    with capsys.disabled():
        each = [seconds / TRACES * 1e6 for seconds in (noting, rows)]
        print(f"\n{kept}: judging {judging * 1e6:.0f} us of CPU, noting {each[0]:.1f} us, a row on another thread {each[1]:.0f} us")  # noqa: T201 - what it is for
