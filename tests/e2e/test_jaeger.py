"""Verdicts are seen in the real Jaeger, in the trace that they judge; an exemplar of a score leads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from tests.e2e.jaeger import tracing
from tests.e2e.judged import SeenVerdict
from tests.e2e.ports import held_ports
from tests.e2e.senders import PYTHON, sending
from tests.sidecar_process import get, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.e2e.jaeger import JaegerSpan
    from tests.e2e.traffic import Recorded

pytestmark = pytest.mark.e2e

RUNS = 6
RESULT = "gen_ai.evaluation.result"
LABEL = "gen_ai.evaluation.score.label"


def _verdicts(span: JaegerSpan) -> set[tuple[str, str]]:
    return {(values["gen_ai.evaluation.name"], values[LABEL]) for name, values in span.events if name == RESULT}


def _exemplars(page: str) -> Sequence[str]:
    families = text_string_to_metric_families(page)  # type: ignore[no-untyped-call]  # the library's parser has no types
    found = [sample.exemplar for family in families if family.name == "gen_ai_evaluation_score" for sample in family.samples]
    return [exemplar.labels["trace_id"] for exemplar in found if exemplar is not None]


def test_verdicts_stand_in_the_judged_trace(recorded: Recorded, tmp_path: Path) -> None:
    judged = SeenVerdict()
    with (
        tracing(tmp_path) as jaeger,
        held_ports(2) as (grpc, http),
        running_sidecar(
            *("--criteria", str(EVALUATIONS), "--grpc", grpc, "--http", http),
            environ={
                "OTEL_TOOLCALL_EVAL_FORWARD_ENDPOINT": f"http://{jaeger.grpc}",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://{jaeger.grpc}",
            },
            quiet="0s",
        ) as running,
        sending(PYTHON[0], grpc=grpc, http=http, runs=recorded.file, folder=tmp_path, whole=True, most=RUNS) as at_work,
    ):
        judged.wait_for(running, RUNS)
        page = get(running.http, "/metrics", accept="application/openmetrics-text; version=1.0.0")[1].decode()
        sent = at_work.stop()
        judged.finish(running)
        judged.hold(sent, recorded)
        for trace_id, run in sent.runs.items():
            spans = jaeger.wait_for(trace_id, spans=sent.spans[trace_id] + 1)
            root = next(span for span in spans if span.span_id == sent.roots[trace_id])
            ours = [span for span in spans if span.name == "evaluate_tool_calls"]
            expected = {(evaluator, label) for evaluator, (label, _) in recorded.verdicts[run].items()}
            (carrier,) = ours
            assert (carrier.parent, _verdicts(carrier)) == (root.span_id, expected)
            # It makes no trace longer; Jaeger cuts each time to whole microseconds.
            assert carrier.start_us + carrier.duration_us <= root.start_us + root.duration_us + 1
            failed = sum(label == "fail" for _, label in expected)
            assert int(carrier.tags["toolcall_eval.verdicts.fail"]) == failed
        leads_to = _exemplars(page)
        assert leads_to
        assert all(jaeger.trace(trace_id) for trace_id in leads_to)
