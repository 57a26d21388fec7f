"""Users' data stays where it is: what stands in any field of spans, headers or criteria's values is never said by the sidecar.

Log lines, metrics and pages never carry argument and output values; events don't by default.
What is shown on purpose are names, and these alone: of services, spans, agents, tools that criteria name, criteria and evaluators; IDs;
and in explanations the paths at which arguments and outputs differ, thus the keys on them, of criteria and of what was recorded.
"""

from __future__ import annotations

import gzip
import json
import signal
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.exporters.sinks import Sink, grpc_sink
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.receivers import LOGS, TRACES
from tests.sidecar_process import RunningSidecar, get, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORD = "tell-tale"
TRACE, ROOT, TOOL = "1" * 32, "2" * 16, "3" * 16
START = 1_790_000_000_000_000_000


@dataclass
class Canaries:
    """Makes canaries, each different, so that one that got out tells from where."""

    made: list[str] = field(default_factory=list)

    def __call__(self, place: str) -> str:
        """Return a new one for a place."""
        self.made.append(f"{WORD}-{place.replace(' ', '-')}-{len(self.made)}")
        return self.made[-1]


def attribute(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": text}}


def request(new: Canaries, trace: str = TRACE, **odd: object) -> dict[str, Any]:
    """Return a request whose every field holds a canary, but for names and IDs."""
    keys = ("input.value", "output.value", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.input.messages", "user.id")
    contents = [attribute(key, json.dumps({"content": new(key), "more": [new(key)]})) for key in keys]
    common = {"startTimeUnixNano": str(START), "endTimeUnixNano": str(START + 5), "flags": 0x100, "traceState": new("trace state")}
    said = {
        "status": {"code": 2, "message": new("status")},
        "events": [
            {
                "name": "exception",
                "attributes": [attribute("exception.message", new("exception")), attribute("exception.stacktrace", new("stack"))],
            },
            {"name": new("event name"), "attributes": [attribute(new("event key"), new("event"))]},
        ],
        "links": [{"traceId": "9" * 32, "spanId": "9" * 16, "traceState": new("link"), "attributes": [attribute("a", new("link"))]}],
    }
    root = {"traceId": trace, "spanId": ROOT, "name": "root", **common, **said, "attributes": [*contents, attribute(new("key"), "x")]}
    tool = {"traceId": trace, "spanId": TOOL, "parentSpanId": ROOT, "name": "get_weather", **common, **said}
    tool["attributes"] = [attribute("tool.name", "get_weather"), *contents]
    resource = [
        attribute("service.name", "svc"),
        attribute("process.command_line", new("resource")),
        attribute(new("key"), new("resource")),
    ]
    scope = {"name": "agent", "version": new("scope version"), "attributes": [attribute("a", new("scope"))]}
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"scope": scope, "spans": [root, {**tool, **odd}]}]}]}


def criteria(new: Canaries) -> str:
    """Return criteria that pass, fail and can't be judged, with canaries for every value; JSON is YAML, too."""
    arguments = {"tool_calls": [{"name": "get_weather", "args": {"content": new("expected value"), "city": new("expected value")}}]}
    output = {"tool_outputs": [{"name": "get_weather", "output": new("expected output")}]}
    judged = {
        "ToolCallCountEvaluator": {"tool_calls_count": {"get_weather": ["=", 2]}},
        "ToolCallOrderEvaluator": {"tool_calls_order": ["get_weather", "other_tool"]},
        "ToolCallArgsEvaluator": arguments,
        "ToolCallOutputEvaluator": output,
    }
    return json.dumps({"evaluations": [{"id": "set", "name": "set", "match": "all", "evaluation_criterias": judged}]})


def secret_headers(new: Canaries) -> dict[str, str]:
    return {"Authorization": f"Bearer {new('token')}", "Cookie": new("cookie"), "X-Api-Key": new("header"), "User-Agent": new("agent")}


@dataclass
class Heard:
    """All that the sidecar said to anybody."""

    said: list[tuple[str, str]] = field(default_factory=list)

    def post(self, address: str, body: bytes, path: str = "/v1/traces", **headers: str) -> int:
        connection = HTTPConnection(address, timeout=PATIENCE_SECONDS)
        try:
            sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
            connection.request("POST", path, body=body, headers=sent)
            answer = connection.getresponse()
            self.said.append((f"answer to POST {path}", str(answer.getheaders()) + answer.read().decode("utf-8", "replace")))
            return answer.status
        finally:
            connection.close()

    def call(self, address: str, message: bytes, method: str, new: Canaries) -> str:
        with grpc.insecure_channel(address) as channel:
            export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method, None, None)
            try:
                export(
                    message,
                    timeout=PATIENCE_SECONDS,
                    metadata=(("authorization", f"Bearer {new('grpc token')}"), ("x-key", new("metadata"))),
                )
            except grpc.RpcError as error:
                self.said.append(("gRPC status", f"{error.code()} {error.details()} {error.trailing_metadata()}"))
                return error.code().name
        return "OK"

    def hold(self) -> None:
        for where, text in self.said:
            at = text.find(WORD)
            assert at < 0, f"{where} says {text[max(0, at - 300) : at + 300]!r}"


@pytest.fixture
def sink() -> Iterator[Sink]:
    yield from grpc_sink()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_canary_gets_out(sink: Sink, tmp_path: Path, form: str) -> None:
    new, heard = Canaries(), Heard()
    file = tmp_path / "set.yaml"
    file.write_text(criteria(new), encoding="utf-8")
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={new('export header')}",
        "OTEL_TOOLCALL_EVAL_LOG_FORMAT": form,
        "OTEL_TOOLCALL_EVAL_LOG_LEVEL": "debug",
        "OTEL_TOOLCALL_EVAL_LIMITS_QUEUE_BYTES": "1KiB",
        "OTEL_TOOLCALL_EVAL_LIMITS_MAX_REQUEST_BYTES": "1MiB",
    }
    with running_sidecar("--criteria", str(file), environ=environ) as sidecar:
        refuse_all_kinds(sidecar, heard, new)
        judged = json.dumps(request(new, trace="5" * 32)).encode()
        wait_for(lambda: heard.post(sidecar.http, judged, **secret_headers(new)) == 200)  # the queue was full a moment ago
        verdicts = [sidecar.verdicts.get(timeout=PATIENCE_SECONDS)]
        while not (verdicts[-1]["trace_id"] == "5" * 32 and verdicts[-1]["label"] == "fail"):
            verdicts.append(sidecar.verdicts.get(timeout=PATIENCE_SECONDS))
        for path in ("/metrics", "/livez", "/readyz", "/debug/traces", "/nowhere"):
            heard.said.append((path, get(sidecar.http, path)[1].decode()))
        assert heard.post(sidecar.http, json.dumps(request(new, trace="4" * 32)).encode()) == 200  # pending at the end
        assert sidecar.terminate() == 0
        verdicts += sidecar.drained()
    heard.said += [("a verdict", json.dumps(verdict)) for verdict in verdicts]
    heard.said.append(("the log", "".join(sidecar.log)))
    assert sink.received.records()
    heard.said.append(("events, spans and metrics", sink.received.everything().decode("utf-8", "replace")))
    heard.hold()
    assert len(new.made) > 100


def broken_criteria(new: Canaries) -> Iterator[str]:
    """Yield files that can't be used, for all sorts of reasons, with canaries for values that are nobody else's business."""
    whole: dict[str, Any] = json.loads(criteria(new))
    (item,) = whole["evaluations"]
    for name, value in (
        ("match", {"attributes": {"user": [new("match")]}}),
        ("match", {"inputs": new("inputs")}),
        ("match", {"service": {"a": new("service")}}),
        ("inputs", new("inputs")),
        ("pass_threshold", [new("threshold")]),
        ("evaluation_criterias", {"ToolCallArgsEvaluator": {"tool_calls": [{"name": "t", "args": new("args")}]}}),
        ("evaluation_criterias", {"ToolCallArgsEvaluator": {"tool_calls": [{"name": ["t"], "args": {"a": new("args")}}]}}),
        ("evaluation_criterias", {"ToolCallOutputEvaluator": {"tool_outputs": {"name": "t", "output": new("output")}}}),
        ("evaluation_criterias", {"ToolCallOutputEvaluator": {"tool_outputs": [new("output")]}}),
        ("evaluation_criterias", {"ToolCallOrderEvaluator": {"tool_calls_order": [{"a": new("order")}]}}),
        ("evaluation_criterias", {"ToolCallCountEvaluator": {"tool_calls_count": {"t": [">=", new("count")]}}}),
        ("evaluation_criterias", {"NoEvaluator": {"tool_calls": [{"name": "t", "args": {"a": new("args")}}]}}),
    ):
        yield json.dumps({"evaluations": [{**item, name: value}]})
    yield json.dumps(whole)[:-3]  # ends in the middle of canaries
    for text in ("*{}", "!{}", "@{}", "`{}", '"{}', "'{}", "{} : x", "{}: b: c", "[{}", "|{}", "&{}", "%{}"):  # unquoted secrets
        yield f"evaluations:\n  - id: set\n    inputs:\n      password: {text.format(new('unquoted'))}\n"
    yield f"a: {new('before a zero')}\0{new('after')}"


def test_no_canary_gets_into_the_log_when_criteria_can_not_be_loaded_again(tmp_path: Path) -> None:
    new, heard = Canaries(), Heard()
    file = tmp_path / "set.yaml"
    file.write_text(criteria(new), encoding="utf-8")
    with running_sidecar("--criteria", str(file), environ={"OTEL_TOOLCALL_EVAL_LOG_LEVEL": "debug"}) as sidecar:
        for text in broken_criteria(new):
            told = len(sidecar.log)
            file.write_text(text, encoding="utf-8")
            sidecar.process.send_signal(signal.SIGHUP)
            wait_for(lambda told=told: len(sidecar.log) > told)  # type: ignore[misc] # mypy sees no default in it
        told = len(sidecar.log)
        file.write_text(criteria(new), encoding="utf-8")
        sidecar.process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("criteria reloaded" in line for line in sidecar.log[told:]), "criteria that can be used")
        assert sidecar.terminate() == 0
    assert sum("could not be reloaded" in line for line in sidecar.log) > 20
    heard.said.append(("the log", "".join(sidecar.log)))
    heard.hold()


def test_values_are_found_where_they_are_asked_for_and_nowhere_else(sink: Sink, tmp_path: Path) -> None:
    """The counter-proof: with ``explain.values: full`` the same search finds canaries, in explanations alone."""
    new, heard = Canaries(), Heard()
    file = tmp_path / "set.yaml"
    file.write_text(criteria(new), encoding="utf-8")
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
        "OTEL_TOOLCALL_EVAL_EXPLAIN_VALUES": "full",
        "OTEL_TOOLCALL_EVAL_LOG_LEVEL": "debug",
    }
    with running_sidecar("--criteria", str(file), environ=environ) as sidecar:
        assert heard.post(sidecar.http, json.dumps(request(new)).encode(), **secret_headers(new)) == 200
        verdicts = [sidecar.verdicts.get(timeout=PATIENCE_SECONDS) for _ in range(4)]
        for path in ("/metrics", "/debug/traces"):
            heard.said.append((path, get(sidecar.http, path)[1].decode()))
        assert sidecar.terminate() == 0
    heard.said.append(("the log", "".join(sidecar.log)))
    heard.hold()
    events = b"".join(record.SerializeToString() for _, record in sink.received.records()).decode("utf-8", "replace")
    for said in (json.dumps(verdicts), events):
        for place in ("expected-value", "expected-output", "input.value", "output.value"):
            assert f"{WORD}-{place}" in said


def test_recorded_keys_are_named_in_explanations_and_their_values_are_not(tmp_path: Path) -> None:
    """A decision: without the path at which arguments differ an explanation explains nothing. Keys that are secrets do not belong there."""
    file = tmp_path / "set.yaml"
    file.write_text(criteria(Canaries()), encoding="utf-8")
    sent = request(Canaries())
    (_, tool) = sent["resourceSpans"][0]["scopeSpans"][0]["spans"]
    recorded = {"content": "x", "recorded-key": f"{WORD}-value"}
    tool["attributes"] = [attribute("tool.name", "get_weather"), attribute("input.value", json.dumps(recorded))]
    with running_sidecar("--criteria", str(file)) as sidecar:
        assert Heard().post(sidecar.http, json.dumps(sent).encode()) == 200
        said = json.dumps([sidecar.verdicts.get(timeout=PATIENCE_SECONDS) for _ in range(4)])
        assert sidecar.terminate() == 0
    assert "recorded-key" in said
    assert WORD not in said


def refuse_all_kinds(sidecar: RunningSidecar, heard: Heard, new: Canaries) -> None:
    """Send what is refused or rejected, by every reason that there is."""
    whole = json.dumps(request(new)).encode()
    headers = secret_headers(new)
    wrong: dict[str, object] = {"startTimeUnixNano": new("time"), "kind": [new("kind")], "attributes": new("attributes")}
    wrong["name"] = {new("name"): 1}
    for name, value in wrong.items():
        assert heard.post(sidecar.http, json.dumps(request(new, TRACE, **{name: value})).encode(), **headers) == 400
    for body, status, extra in (
        (whole[:-5], 400, {}),
        (whole, 400, {"Content_Encoding": "gzip"}),
        (gzip.compress(whole)[:-9], 400, {"Content_Encoding": "gzip"}),
        (whole, 415, {"Content_Encoding": new("encoding")}),
        (whole, 415, {"Content_Type": f"text/{new('media type')}"}),
        (whole, 417, {"Expect": new("expectation")}),
        (whole + b" " * (1 << 20), 413, {}),
        (json.dumps(request(new, spanId=new("span ID"))).encode(), 200, {}),
        (whole, 400, {"Content_Type": "application/x-protobuf"}),
    ):
        assert heard.post(sidecar.http, body, **{**headers, **extra}) == status
    assert heard.post(sidecar.http, whole, f"/{new('path')}?{new('query')}", **headers) == 404
    assert heard.call(sidecar.grpc, whole, TRACES, new) == "INVALID_ARGUMENT"
    assert heard.call(sidecar.grpc, whole, LOGS, new) == "INVALID_ARGUMENT"
    assert heard.call(sidecar.grpc, whole, f"/{new('service')}/Export", new) == "UNIMPLEMENTED"
    heard.post(sidecar.http, b"x", **{new("header"): "a" * 9000})
    many = {"resourceSpans": [block for number in range(200) for block in request(new, trace=f"{number + 1000:032x}")["resourceSpans"]]}
    for _ in range(20):  # some of these find the queue full
        heard.post(sidecar.http, json.dumps(many).encode(), **headers)
