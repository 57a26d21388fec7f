"""A page that is scraped: exemplars lead to traces, rules are evaluated, and OTLP gives the same answers as a scrape."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from otel_toolcall_eval.exporters.metrics.collection import Collection
from tests.e2e.collector import collecting
from tests.e2e.judged import SeenVerdict
from tests.e2e.ports import held_ports
from tests.e2e.prometheus import serving, vector
from tests.e2e.senders import PYTHON, sending
from tests.e2e.test_dashboards import EVERYTHING, filled_in
from tests.grafana.dashboards import FOLDER, load, panels
from tests.patience import wait_for
from tests.prometheus.rules import FILES
from tests.prometheus.seeding import Seeded
from tests.prometheus.world import RUNS, trace_id
from tests.sidecar_process import running_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.prometheus import Json, Serving
    from tests.e2e.traffic import Recorded

pytestmark = pytest.mark.e2e


@contextmanager
def shown(sidecar: Seeded) -> Iterator[str]:
    """Serve a sidecar's page; yields the address."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = sidecar.page.render(self.headers.get("accept", ""))
            self.send_response(200)
            self.send_header("content-type", page.content_type)
            self.send_header("content-length", str(len(page.body)))
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def emitted(number: int = 60) -> Seeded:
    """Return a sidecar whose clock is the machine's, after some runs."""
    sidecar = Seeded("a", began=time.time())
    for place, run in enumerate(RUNS[:number], 1):
        sidecar.emit(run, place)
    sidecar.now = int(time.time())
    return sidecar


def queries(board: str) -> Iterator[tuple[str, Json]]:
    for panel in panels(load(FOLDER / f"{board}.json")):
        for target in panel["targets"]:
            if "expr" in target:
                yield panel["title"], target


def ask(prometheus: Serving, target: Json) -> dict[frozenset[tuple[str, str]], float]:
    found = vector(prometheus.instant(filled_in(target["expr"], EVERYTHING), at=time.time()))
    return {frozenset(labels): value for labels, value in found.items()}


def test_dots_of_the_dashboards_are_the_judged_traces(tmp_path: Path) -> None:
    sidecar = emitted()
    runs = {trace_id(number).hex(): run for number, run in enumerate(RUNS, 1)}
    with shown(sidecar) as address, serving(tmp_path, scraped=[address]) as prometheus:
        span = {"start": time.time() - 600, "end": time.time() + 600}

        def exemplars(target: Json) -> list[Json]:
            answer = prometheus.ask("query_exemplars", query=filled_in(target["expr"], EVERYTHING), **span)
            return [exemplar | {"series": found["seriesLabels"]} for found in answer for exemplar in found["exemplars"]]

        asking = [(title, target) for board in ("verdicts", "failures") for title, target in queries(board) if target.get("exemplar")]
        assert {title for title, _ in asking} >= {"Distribution of scores", "Failing scores", "Mean score by agent"}
        for title, target in asking:
            wait_for(partial(_any, exemplars, target), title)
            for found in exemplars(target):
                run = runs[found["labels"]["trace_id"]]
                series = found["series"]
                (judged,) = [one for one in run.verdicts if one.evaluator == series["gen_ai_evaluation_name"]]
                assert judged.score == pytest.approx(float(found["value"]))
                assert series["gen_ai_evaluation_score_label"] == judged.label.value
                assert series.get("gen_ai_agent_name") == run.agent
                if title == "Failing scores":
                    assert judged.label.value == "fail"


def test_rules_are_evaluated_without_a_fault_and_alerts_are_in_whole_sentences(tmp_path: Path) -> None:
    sidecar = emitted()
    hurried = []
    for file in FILES:
        hurried.append(tmp_path / file.name)
        text = re.sub(r"interval: \dm", "interval: 1s", file.read_text(encoding="utf-8"))
        hurried[-1].write_text(text, encoding="utf-8")
    with shown(sidecar) as address, serving(tmp_path, scraped=[address], rule_files=hurried) as prometheus:

        def rules() -> list[Json]:
            return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]

        wait_for(lambda: "unknown" not in {rule["health"] for rule in rules()} != set(), "every rule")
        assert [(rule["name"], rule["lastError"]) for rule in rules() if rule["health"] != "ok"] == []
        wait_for(lambda: bool(prometheus.get("alerts")["alerts"]), "an alert")
        for alert in prometheus.get("alerts")["alerts"]:
            told = " ".join(alert["annotations"].values())
            assert "<no value>" not in told
            assert "{{" not in told
            assert alert["annotations"]["description"].endswith(".")


def push(sidecar: Seeded, endpoint: str) -> None:
    exporter = OTLPMetricExporter(endpoint=endpoint)
    assert exporter.export(Collection(sidecar.aggregator).collect()) is MetricExportResult.SUCCESS
    exporter.shutdown()


def hold_equal(one: Serving, other: Serving) -> None:
    """Hold that two give every score panel the same answer."""
    answered = 0
    for board in ("verdicts", "failures"):
        for title, target in queries(board):
            answer = ask(one, target)
            # A bucket's bound is written 1.0 by a scrape, and 1 by OTLP; Grafana reads it as a number.
            assert {_as_number(labels): value for labels, value in answer.items()} == {
                _as_number(labels): pytest.approx(value, nan_ok=True) for labels, value in ask(other, target).items()
            }, title
            answered += bool(answer)
    assert answered > 25


def is_there(prometheus: Serving) -> bool:
    return bool(prometheus.instant("gen_ai_evaluation_score_count", at=time.time()))


def test_what_comes_by_otlp_gives_the_same_answers_as_what_is_scraped(tmp_path: Path) -> None:
    sidecar = emitted()
    (tmp_path / "pushed").mkdir()
    with shown(sidecar) as address, serving(tmp_path, scraped=[address]) as scraped, serving(tmp_path / "pushed") as pushed:
        push(sidecar, f"http://{pushed.address}/api/v1/otlp/v1/metrics")
        wait_for(lambda: is_there(scraped), "a scrape")
        hold_equal(scraped, pushed)


def test_what_comes_through_a_collector_gives_the_same_answers_with_the_same_traces(tmp_path: Path) -> None:
    sidecar = emitted()
    (tmp_path / "behind").mkdir()
    with held_ports(1) as (page,):
        exporter = {"endpoint": page, "enable_open_metrics": True}
        with (
            shown(sidecar) as address,
            serving(tmp_path, scraped=[address]) as scraped,
            collecting(tmp_path, exporters={"nop": {}}, of_metrics={"prometheus": exporter}) as collector,
            serving(tmp_path / "behind", scraped=[page]) as behind,
        ):
            push(sidecar, f"http://{collector.http}/v1/metrics")
            wait_for(lambda: is_there(scraped) and is_there(behind), "both scrapes")
            hold_equal(scraped, behind)
            span = {"start": time.time() - 600, "end": time.time() + 600}

            def traces(prometheus: Serving) -> set[str]:
                answer = prometheus.ask("query_exemplars", query="gen_ai_evaluation_score_bucket", **span)
                return {exemplar["labels"]["trace_id"] for found in answer for exemplar in found["exemplars"]}

            wait_for(lambda: traces(scraped) == traces(behind) != set(), "the same exemplars")
            collector.stop()


def _any(ask_: Callable[[Json], list[Json]], target: Json) -> bool:
    return bool(ask_(target))


def _as_number(labels: frozenset[tuple[str, str]]) -> str:
    return json.dumps(sorted((key, str(float(value)) if key == "le" else value) for key, value in labels))


def test_scores_of_a_real_sidecar_are_on_the_dashboards_within_some_scrapes(recorded: Recorded, tmp_path: Path) -> None:
    judged = SeenVerdict()
    with (
        held_ports(2) as (grpc, http),
        running_sidecar("--criteria", str(EVALUATIONS), "--grpc", grpc, "--http", http, quiet="0s") as running,
        serving(tmp_path, scraped=[http]) as prometheus,
        sending(PYTHON[0], grpc=grpc, http=http, runs=recorded.file, folder=tmp_path, whole=True, most=6) as at_work,
    ):
        judged.wait_for(running, 6)
        sent = at_work.stop()
        expected = [score for run in sent.runs.values() for _, score in recorded.verdicts[run].values()]
        scores = [score for score in expected if score is not None]
        panel = {title: target for board in ("verdicts", "pipeline-health") for title, target in queries(board)}
        # The first scrape after the verdicts may be the first that there is: what it says has grown all the same.
        wait_for(lambda: sum(ask(prometheus, panel["Verdicts"]).values()) == len(expected), "all verdicts")
        (mean,) = ask(prometheus, panel["Mean score"]).values()
        assert mean == pytest.approx(sum(scores) / len(scores))
        (received,) = ask(prometheus, panel["Spans received"]).values()
        assert received == sum(sent.spans.values())
        marks = load(FOLDER / "verdicts.json")["annotations"]["list"]
        assert all(
            not vector(prometheus.instant(filled_in(mark["expr"], EVERYTHING | {"__interval": "60s"}), at=time.time())) for mark in marks
        )
        judged.finish(running)
