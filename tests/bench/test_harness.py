"""Holds what measures: a load that is not what it says, or a goal that is always reached, would make every figure worthless."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.model.trace import Trace, Trigger
from otel_toolcall_eval.otlp import protobuf_traces
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.criteria_models import evaluators_by_criteria
from tests.bench import __main__ as program
from tests.bench import results as kept
from tests.bench.agent_traces import SPANS_OF_TRACE, request_of
from tests.bench.loads import LOADS, Load, Requests, criteria
from tests.bench.results import Goal, Result, quantile
from tests.engine.buffer.judged import READER

if TYPE_CHECKING:
    from pathlib import Path


def ids_of(load: Load, body: bytes) -> list[tuple[bytes, bytes]]:
    body = gzip.decompress(body) if load.gzip else body
    if load.json:
        spans = [span for block in json.loads(body)["resourceSpans"] for group in block["scopeSpans"] for span in group["spans"]]
        return [(bytes.fromhex(span["traceId"]), bytes.fromhex(span["spanId"])) for span in spans]
    request = ExportTraceServiceRequest.FromString(body)
    return [(span.trace_id, span.span_id) for span in request.resource_spans[0].scope_spans[0].spans]


@pytest.mark.parametrize("name", LOADS)
def test_a_load_is_whole_traces_no_two_of_which_have_one_id(name: str) -> None:
    load = LOADS[name]
    requests = Requests(load)
    bodies = list(islice(requests, 2 if load.traces else 2 * SPANS_OF_TRACE))
    found = [ids_of(load, body) for body in bodies]
    assert [len(ids) for ids in found] == [load.spans] * len(bodies)
    together = [pair for ids in found for pair in ids]
    assert len(set(together)) == len(together)
    traces = {trace_id for trace_id, _ in together}
    assert len(traces) * SPANS_OF_TRACE == len(together)
    number_of = Requests.numbering(load, requests.prefix)
    last = {trace_id: number for number, ids in enumerate(found) for trace_id, _ in ids}
    assert {trace_id: number_of(trace_id) for trace_id in traces} == last
    assert number_of(bytes(16)) is None


def test_writing_ids_into_a_request_changes_nothing_else() -> None:
    load = replace(LOADS["bound-grpc"], traces=3)
    written = ExportTraceServiceRequest.FromString(next(iter(Requests(load))))
    expected = ExportTraceServiceRequest.FromString(request_of(1, 3))
    for request in (written, expected):
        for span in request.resource_spans[0].scope_spans[0].spans:
            span.trace_id = b""
    assert written == expected


@pytest.mark.parametrize(
    ("service", "scores"), [pytest.param("weather-agent", [1.0] * 4, id="bound"), pytest.param("another-agent", [], id="unbound")]
)
def test_the_standard_load_passes_all_four_evaluators_where_it_is_bound(service: str, scores: list[float], tmp_path: Path) -> None:
    (tmp_path / "criteria.json").write_text(criteria(service), encoding="utf-8")
    pipe = Pipeline(reader=READER, evaluators=evaluators_by_criteria(), criteria=load_criteria([CriteriaSource(path=tmp_path)]).sets)
    spans = tuple(protobuf_traces.decode_traces(request_of(1, 1), pipe.projection).spans)
    report = pipe.evaluate(Trace(trace_id=spans[0].trace_id, spans=spans, root=spans[-1], trigger=Trigger.ROOT_SPAN))
    assert [verdict.emitted_score for verdict in report.verdicts] == scores


def test_lifelike_traces_are_as_long_and_say_what_nobody_said() -> None:
    first, second = (ExportTraceServiceRequest.FromString(request_of(number, 1, lifelike=True)) for number in (1, 2))
    usual = ExportTraceServiceRequest.FromString(request_of(1, 1))
    assert request_of(1, 1, lifelike=True) == first.SerializeToString()
    assert first.ByteSize() == pytest.approx(usual.ByteSize(), rel=0.02)
    said = [
        span.attributes[3].value.string_value for one in (first, second) for span in one.resource_spans[0].scope_spans[0].spans[::2][:5]
    ]
    ids = [span.span_id for one in (first, second) for span in one.resource_spans[0].scope_spans[0].spans]
    assert (len(set(said)), len(set(ids))) == (10, 2 * SPANS_OF_TRACE)


RESULT = Result(name="a", load="b", ours=3.0, theirs=2.0, yardstick="c")


@pytest.mark.parametrize(
    ("goals", "reached"),
    [
        pytest.param((), None, id="none"),
        pytest.param((Goal(limit=1.5),), True, id="ratio, at its limit"),
        pytest.param((Goal(limit=1.4),), False, id="ratio, beyond it"),
        pytest.param((Goal(limit=3.0, of="ours"),), True, id="ours"),
        pytest.param((Goal(limit=100, of="spans/s", least=True),), True, id="at least"),
        pytest.param((Goal(limit=101, of="spans/s", least=True),), False, id="less than that"),
        pytest.param((Goal(limit=1.5), Goal(limit=1, of="ours")), False, id="one of two"),
        pytest.param((Goal(limit=1.5), Goal(limit=1, of="p99")), None, id="one is not there"),
        pytest.param((Goal(limit=1.4), Goal(limit=1, of="p99")), False, id="one is missed, one is not there"),
    ],
)
def test_all_goals_have_to_be_reached(goals: tuple[Goal, ...], *, reached: bool | None) -> None:
    assert replace(RESULT, goals=goals, more={"spans/s": 100.0}).all_reached is reached


def test_without_a_yardstick_no_ratio_is_told() -> None:
    alone = replace(RESULT, theirs=None, goals=(Goal(limit=1.5),))
    assert (alone.ratio, alone.all_reached) == (None, None)


def test_what_a_part_wrote_is_read_back_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (kept, program):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    found = replace(RESULT, goals=(Goal(limit=2.0),), more={"p99 ms": 12.5, "labels": "pass"})
    kept.write("wire", [found])
    assert program.read_part("wire") == [found]
    kept.show([found])
    shown = capsys.readouterr().out
    assert "1.50" in shown
    assert "p99 ms 12.50; labels pass" in shown
    assert "load average" in shown


def test_a_part_that_is_not_there_is_answered_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["wires"])
    assert ended.value.code == 2
    assert "no such part: wires; there are sidecar" in capsys.readouterr().err


@pytest.mark.parametrize(("part", "expected"), [(0.5, 3.0), (0.99, 5.0), (0.0, 1.0)])
def test_quantiles_are_values_that_were_measured(part: float, expected: float) -> None:
    assert quantile([5.0, 1.0, 3.0, 2.0, 4.0], part) == expected
    assert quantile([], part) == 0.0
