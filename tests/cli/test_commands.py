"""The commands as people and programs meet them: what they print, and how they end."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from otel_toolcall_eval.__main__ import main
from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

START_NS = 1_790_000_000_000_000_000
Run = tuple[int, str, str]


def span(number: int, *, trace: int = 1, parent: int | None = 1, **attributes: object) -> dict[str, object]:
    """Return an OTLP/JSON span; attribute names have ``__`` for a dot."""
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": f"span-{number}",
        "flags": 0x100,
        "startTimeUnixNano": str(START_NS + 10 * number),
        "endTimeUnixNano": str(START_NS + 10 * number + 5),
        "attributes": [{"key": key.replace("__", "."), "value": {"stringValue": str(value)}} for key, value in attributes.items()],
    }


def request(*spans: dict[str, object], service: str = "agent") -> dict[str, object]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


ROOT = span(1, parent=None)
SEARCH = span(2, tool__name="search", input__value="{'q': 'x'}", output__value='{"content": "found"}')
DELETE = span(3, tool__name="delete_all")

POLICY = """\
evaluations:
  - id: policy
    name: policy
    match: {match}
    evaluation_criterias:
      ToolCallCountEvaluator: {{tool_calls_count: {{search: [">=", 1], delete_all: ["=", 0]}}}}
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    def call(*arguments: object) -> Run:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.format(match="all"), encoding="utf-8")
    return path


def write(path: Path, *requests: object) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in requests), encoding="utf-8")
    return path


# evaluate


@pytest.mark.parametrize(
    ("spans", "code", "label", "score"),
    [
        pytest.param([ROOT, SEARCH], 0, "pass", 1.0, id="all-pass"),
        pytest.param([ROOT, SEARCH, DELETE], 1, "fail", 0.5, id="one-fails"),
        pytest.param([SEARCH], 1, "inconclusive", None, id="root-and-perhaps-more-missing"),
    ],
)
def test_evaluate_judges_and_ends_accordingly(  # noqa: PLR0917 - the columns of the table
    run: Callable[..., Run], tmp_path: Path, policy: Path, spans: Sequence[dict[str, object]], code: int, label: str, score: float | None
) -> None:
    traces = write(tmp_path / "traces.jsonl", *(request(one) for one in reversed(spans)))
    ended, out, err = run("evaluate", traces, "--criteria", policy, "--format", "json")
    document = json.loads(out)
    (trace,) = document["traces"]
    (result,) = trace["results"]
    assert (ended, result["label"], result["score"], err) == (code, label, score, "")
    assert trace["trace_id"] == f"{1:032x}"
    assert {"criteria", "evaluator", "score", "label", "details", "completeness", "reasons"} <= set(result)
    assert (result["criteria"], result["evaluator"]) == ("policy", "ToolCallCountEvaluator")
    assert document["summary"][label] == document["summary"]["evaluations"] == document["summary"]["traces"] == 1


def test_evaluate_explains_what_failed_to_people(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    code, out, _ = run("evaluate", write(tmp_path / "t.json", request(ROOT, SEARCH, DELETE)), "--criteria", policy)
    assert code == 1
    assert "delete_all: called 1 time, expected exactly 0" in out
    assert "1 trace, 1 evaluation: 0 pass, 1 fail, 0 inconclusive" in out


def test_evaluate_allows_inconclusive_on_request(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    traces = write(tmp_path / "t.json", request(SEARCH))
    assert run("evaluate", traces, "--criteria", policy, "--allow-inconclusive")[0] == 0
    assert run("evaluate", traces, "--criteria", policy)[0] == 1


def test_evaluate_takes_settings_with_criteria(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"criteria: [{policy.name}]\n", encoding="utf-8")
    assert run("evaluate", write(tmp_path / "t.json", request(ROOT, SEARCH)), "--settings", settings)[0] == 0


def test_criteria_that_no_trace_met_are_named(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    traces = write(tmp_path / "t.json", request(ROOT, SEARCH))
    code, out, _ = run("evaluate", traces, "--criteria", policy, "--criteria", EVALUATIONS, "--format", "json")
    assert code == 0
    assert "tokyo_forecast" in json.loads(out)["summary"]["unused_criteria"]
    assert "criteria that no trace met: basic_weather" in run("evaluate", traces, "--criteria", policy, "--criteria", EVALUATIONS)[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", ["traces", "no spans in it"], id="empty"),
        pytest.param(b"hello\n", ["traces", "not OTLP"], id="not-otlp"),
        pytest.param(json.dumps(request(ROOT)).encode()[:-20], ["traces"], id="truncated"),
        pytest.param(gzip.compress(json.dumps(request(ROOT)).encode())[:-9], ["traces"], id="truncated-gzip"),
        pytest.param(b'{"data": [{"traceID": "1", "spans": [], "processes": {}}]}', ["Jaeger"], id="jaeger-export"),
        pytest.param(json.dumps({"resourceSpans": []}).encode(), ["no span"], id="no-spans"),
    ],
)
def test_unusable_traces_end_with_2_and_a_cure(
    run: Callable[..., Run], tmp_path: Path, policy: Path, content: bytes, words: list[str]
) -> None:
    path = tmp_path / "traces"
    path.write_bytes(content)
    for command in (["evaluate", path, "--criteria", policy], ["calls", path]):
        code, _, err = run(*command)
        assert code == 2
        assert all(word.lower() in err.lower() for word in words), err
        assert ";" in err


def test_bad_line_costs_only_itself(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    traces = tmp_path / "traces.jsonl"
    traces.write_text(f"{json.dumps(request(ROOT))}\n{{broken\n{json.dumps(request(SEARCH))}\n", encoding="utf-8")
    code, out, err = run("evaluate", traces, "--criteria", policy, "--format", "json")
    assert code == 2
    assert json.loads(out)["traces"][0]["results"][0]["label"] == "pass"
    assert "traces.jsonl:2" in err


def test_spans_that_had_to_be_rejected_are_reported(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    traces = write(tmp_path / "traces.jsonl", request(ROOT, SEARCH, {**DELETE, "spanId": "0" * 16}))
    code, _, err = run("evaluate", traces, "--criteria", policy)
    assert code == 2
    assert "1 span without a valid span_id" in err


@pytest.mark.parametrize(
    ("match", "words"),
    [
        pytest.param("{service: other-agent}", ["other-agent", "come from agent", "toolcall_eval.criteria"], id="another-service"),
        pytest.param("{root_span_name: nobody}", ["none of the 1 criteria", "span-1"], id="another-root"),
    ],
)
def test_run_that_judges_nothing_never_looks_like_one_that_passed(
    run: Callable[..., Run], tmp_path: Path, policy: Path, match: str, words: list[str]
) -> None:
    policy.write_text(POLICY.format(match=match), encoding="utf-8")
    code, _, err = run("evaluate", write(tmp_path / "t.json", request(ROOT, SEARCH)), "--criteria", policy)
    assert code == 2
    assert all(word in err for word in words), err


def test_names_that_are_not_loaded_are_reported_once(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    traces = write(tmp_path / "t.jsonl", *(request(span(1, trace=n, parent=None, toolcall_eval__criteria="polciy")) for n in (1, 2)))
    code, _, err = run("evaluate", traces, "--criteria", policy)
    assert code == 2
    assert err.count("polciy") == 1
    assert "2 of 2 ask for the criteria 'polciy'" in err


def test_evaluate_without_criteria_says_so(run: Callable[..., Run], tmp_path: Path) -> None:
    code, _, err = run("evaluate", write(tmp_path / "t.json", request(ROOT)))
    assert code == 2
    assert "--criteria PATH" in err


def test_criteria_that_no_trace_met_fail_a_run_on_request(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(POLICY.format(match="{service: order-deks}").replace("policy", "typo"), encoding="utf-8")
    arguments = ["evaluate", write(tmp_path / "t.json", request(ROOT, SEARCH)), "--criteria", policy, "--criteria", other]
    assert run(*arguments)[0] == 0
    assert run(*arguments, "--require-all")[0] == 1


def test_policy_that_passes_on_spans_without_any_call_comes_with_a_hint(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    policy.write_text(POLICY.format(match="all").replace('search: [">=", 1], ', ""), encoding="utf-8")
    misspelt = span(2, gen_ai__operation="execute_tool", gen_ai__tool__nmae="delete_all")
    code, out, _ = run("evaluate", write(tmp_path / "t.json", request(ROOT, misspelt)), "--criteria", policy)
    assert code == 0
    assert "no tool call was read from its 2 spans; `calls` says why" in out


def test_long_tables_are_cut_and_what_failed_goes_first(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    good = [request(span(1, trace=n, parent=None), span(2, trace=n, tool__name="search")) for n in range(1, 300)]
    bad = request(span(1, trace=999, parent=None))
    code, out, _ = run("evaluate", write(tmp_path / "t.jsonl", *good, bad), "--criteria", policy)
    assert code == 1
    assert "and 100 more; --format json has them all" in out
    assert out.splitlines()[3].split()[-2] == "fail"


def test_values_are_shown_to_people_if_the_settings_say_so(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"criteria: [{policy.name}]\nexplain: {{values: full}}\n", encoding="utf-8")
    out = run("evaluate", write(tmp_path / "t.json", request(ROOT, DELETE)), "--settings", settings)[1]
    assert "    delete_all: Actual: 1, Expected: 0, Score: 0.0" in out


def test_secrets_are_shown_to_nobody(run: Callable[..., Run], tmp_path: Path) -> None:
    wanted = {"tool_calls": [{"name": "search", "args": {"q": "a", "password": "expected"}}]}
    judged = [{"id": "p", "match": "all", "evaluation_criterias": {"ToolCallArgsEvaluator": wanted}}]
    write(tmp_path / "p.json", {"evaluations": judged})
    settings = tmp_path / "settings.yaml"
    settings.write_text("criteria: [p.json]\nexplain: {values: full}\n", encoding="utf-8")
    recorded = json.dumps({"q": "b", "password": "hunter2", "note": "Bearer hunter2hunter2"})
    called = span(2, tool__name="search", input__value=recorded)
    out = run("evaluate", write(tmp_path / "t.json", request(ROOT, called)), "--settings", settings)[1]
    assert (
        "    search_0: Actual: {'q': 'b', 'password': [REDACTED], 'note': '[REDACTED]'}, Expected: {'q': 'a', 'password': [REDACTED]}"
        in out
    )


def test_recorded_text_can_not_forge_output(run: Callable[..., Run], tmp_path: Path) -> None:
    forged = span(2, tool__name="x\n\x1b[2Kpass")
    out = run("calls", write(tmp_path / "t.json", request({**ROOT, "name": "a\x1b]0;b"}, forged)))[1]
    assert "\x1b" not in out
    assert r"x\n\x1b[2Kpass" in out


def test_fault_of_ours_looks_like_no_verdict(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_kind: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("otel_toolcall_eval.cli.schema.criteria_schema", broken)
    code, _, err = run("schema", "criteria")
    assert code == 3
    assert err.endswith("please report the lines above\n")


def test_full_disk_is_said_in_words(policy: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 - a device
        command = [sys.executable, "-m", "otel_toolcall_eval", "check", str(policy), "--format", "json"]
        ended = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr


# calls


def test_calls_shows_each_call_and_why_the_others_are_none(run: Callable[..., Run], tmp_path: Path) -> None:
    traces = write(tmp_path / "t.json", request(ROOT, SEARCH, SEARCH))
    code, out, _ = run("calls", traces, "--format", "json")
    (trace,) = json.loads(out)["traces"]
    (call,) = trace["tool_calls"]
    assert code == 0
    assert trace["trace_id"] == f"{1:032x}"
    assert (call["name"], call["arguments"], call["arguments_state"], call["sequence"]) == ("search", {"q": "x"}, "full", 0)
    assert (call["start_ns"], call["span_id"], call["parent_span_id"]) == (START_NS + 20, f"{2:016x}", f"{1:016x}")
    assert [ignored["span_id"] for ignored in trace["ignored"]] == [f"{1:016x}"]
    assert all(ignored["reason"] for ignored in trace["ignored"])
    table = run("calls", traces)[1]
    assert "search" in table
    assert "not a call: span-1" in table


def test_calls_json_is_strict_whatever_was_recorded(run: Callable[..., Run], tmp_path: Path) -> None:
    odd = span(2, tool__name="odd", input__value='{"x": NaN, "y": "\\ud800"}', output__value="{1: float}")
    code, out, _ = run("calls", write(tmp_path / "t.json", request(odd)), "--format", "json")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert code == 0
    json.loads(out, parse_constant=refuse)


def test_long_payloads_are_clipped_for_people(run: Callable[..., Run], tmp_path: Path) -> None:
    long = span(2, tool__name="long", input__value=json.dumps({"x": "y" * 5000}))
    assert "y" * 100 not in run("calls", write(tmp_path / "t.json", request(long)))[1].replace("\n", "")


# check, schema, help


def test_check_shows_what_criteria_select(run: Callable[..., Run], policy: Path) -> None:
    code, out, err = run("check", policy, EVALUATIONS)
    assert (code, err) == (0, "")
    assert "tokyo_forecast" in out
    assert "0 errors, 0 warnings" in out
    document = json.loads(run("check", policy, "--format", "json")[1])
    assert [found["name"] for found in document["criteria"]] == ["policy"]
    assert document["criteria"][0]["judges"] == "every trace"


@pytest.mark.parametrize(
    ("match", "said"),
    [
        pytest.param("{service: [a, b]}", "traces whose service.name is a or b", id="service"),
        pytest.param("{agent_name: x, root_span_name: y}", "traces whose root span is 'y' and agent is 'x'", id="names"),
        pytest.param("{inputs: {city: Tokyo}}", "traces whose input has city='Tokyo'", id="inputs"),
        pytest.param("named", "only traces that name it", id="named"),
    ],
)
def test_check_says_in_words_which_traces_are_judged(run: Callable[..., Run], policy: Path, match: str, said: str) -> None:
    policy.write_text(POLICY.format(match=match), encoding="utf-8")
    assert json.loads(run("check", policy, "--format", "json")[1])["criteria"][0]["judges"] == said


def test_check_names_all_that_is_wrong(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    policy.write_text(POLICY.format(match="all").replace('">="', '"=>"').replace('"=", 0', '"=", -1'), encoding="utf-8")
    settings = tmp_path / "settings.yaml"
    settings.write_text("completion: {idle_timout: 5m}\n", encoding="utf-8")
    code, out, err = run("check", policy, settings)
    assert code == 2
    assert "'=>' is not an operator" in err
    assert "-1" in err
    assert "idle_timeout" in err
    assert "3 errors" in out
    assert json.loads(run("check", policy, "--format", "json")[1])["errors"][0]["fix"]


def test_check_takes_a_folder_with_files_of_every_kind(run: Callable[..., Run], tmp_path: Path, policy: Path) -> None:
    (tmp_path / "sidecar.yaml").write_text(f"criteria: [{policy.name}]\nlimits: {{limit_mib: 64}}\n", encoding="utf-8")
    code, out, err = run("check", tmp_path)
    assert "sidecar.yaml (settings)" in out
    assert (code, err) == (0, "")


@pytest.mark.parametrize("kind", ["criteria", "evaluator", "eval-set", "settings"])
def test_schema_is_valid(run: Callable[..., Run], kind: str) -> None:
    code, out, _ = run("schema", kind)
    schema: dict[str, Any] = json.loads(out)
    Draft202012Validator.check_schema(schema)
    assert (code, schema["$schema"]) == (0, "https://json-schema.org/draft/2020-12/schema")


def test_every_command_has_a_summary_and_an_example(run: Callable[..., Run]) -> None:
    for command in ("serve", "evaluate", "calls", "check", "schema", "demo", "healthcheck"):
        with pytest.raises(SystemExit) as ended:
            run(command, "--help")
        assert ended.value.code == 0


def test_help_shows_examples_and_exit_codes() -> None:
    ended = subprocess.run([sys.executable, "-m", "otel_toolcall_eval", "evaluate", "--help"], check=True, capture_output=True, text=True)
    assert "examples:" in ended.stdout
    assert "--criteria PATH" in ended.stdout


@pytest.mark.parametrize("arguments", [["evaluat"], [], ["schema", "nothing"], ["healthcheck", "--timeout", "soon"]])
def test_wrong_command_line_ends_with_2_and_names_the_help(run: Callable[..., Run], arguments: list[str]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "--help" in err


def test_healthcheck_reports_a_url_that_is_none(run: Callable[..., Run]) -> None:
    code, _, err = run("healthcheck", "--url", "localhost:4318")
    assert code == 2
    assert "http://127.0.0.1:4318/readyz" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--url", "http://127.0.0.1:99999/"], "no HTTP address", id="port-too-large"),
        pytest.param(["--url", "http://[::1"], "no HTTP address", id="open-bracket"),
        pytest.param(["--timeout", "-1"], "not above 0", id="negative-time-out"),
    ],
)
def test_healthcheck_refuses_what_it_can_not_ask(run: Callable[..., Run], arguments: list[str], words: str) -> None:
    code, _, err = run("healthcheck", *arguments)
    assert code == 2
    assert words in err


def test_healthcheck_finds_the_address_in_the_settings(run: Callable[..., Run], tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("listen: {http: '127.0.0.1:9'}\n", encoding="utf-8")
    assert run("healthcheck", "--config", settings)[2].startswith("http://127.0.0.1:9/readyz: no answer")


def test_healthcheck_asks_the_configured_address(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TOOLCALL_EVAL_LISTEN_HTTP", "0.0.0.0:9")
    monkeypatch.setenv("OTEL_TOOLCALL_EVAL_LISTEN_INSECURE", "true")
    code, _, err = run("healthcheck")
    assert code == 1
    assert err.startswith("http://127.0.0.1:9/readyz: no answer")


def test_closed_pipe_ends_quietly_and_looks_like_no_verdict(tmp_path: Path) -> None:
    traces = write(tmp_path / "t.jsonl", *(request(span(1, trace=n, parent=None)) for n in range(1, 3000)))
    command = f"{sys.executable} -m otel_toolcall_eval calls {traces} --format json | head -n 1"
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],  # noqa: S607 - any bash will do
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (141, "{\n", "")


def test_demo_prints_the_table_and_the_misbehaving_run(run: Callable[..., Run]) -> None:
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "How the agent used its tools" in out
    assert "misbehaving forecast" in out
    assert "get_humidity_0: Actual: {'city': 'Dublin'}, Expected: {'city': 'London'}, Score: 0.0" in out
    assert "Where to go next" in out


def test_demo_in_json_gives_the_scores_computed_by_hand(run: Callable[..., Run]) -> None:
    code, out, _ = run("demo", "--format", "json")
    runs = json.loads(out)["runs"]
    scores = [[verdict["score"] for verdict in one["verdicts"]] for one in runs]
    assert code == 0
    assert scores[:5] == [[1.0] * 4] * 5
    # count: the temperature alone is off, 4/5; order: 2 of 4 in sequence; args: one city of 4; output: the forecast of 3
    assert scores[5] == pytest.approx([4 / 5, 2 / 4, 3 / 4, 2 / 3])


def test_version_is_an_answer_and_not_a_complaint(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert said.out.startswith("otel-toolcall-eval ")
    assert said.err == ""
