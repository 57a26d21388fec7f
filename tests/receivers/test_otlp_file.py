from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.receivers.file import receiver as otlp_file
from otel_toolcall_eval.receivers.file.receiver import read_traces
from tests.otlp.otlp_requests import attribute, numbered, request_of, to_json
from tests.receivers.receivers import KEEP

if TYPE_CHECKING:
    from otel_toolcall_eval.model.errors import Problem

ONE, TWO, THREE = (request_of(numbered(number, name=f"span {number}")) for number in (1, 2, 3))
LINES = b"".join(to_json(request) + b"\n" for request in (ONE, TWO, THREE))
PRETTY = json.dumps(json.loads(to_json(ONE)), indent=2).encode()
RECORDS = b"".join(len(body).to_bytes(4) + body for body in (ONE.SerializeToString(), b"", TWO.SerializeToString()))
LONG = request_of(*(numbered(number) for number in range(1, 100)))
LOGS = b'{"resourceLogs": [{"scopeLogs": []}]}\n'
LIKE_JSON = request_of(numbered(1), attributes=[attribute("a", "x" * 54)])  # 0x0A, then a length that is an opening brace


def read(path: Path | str) -> tuple[list[str], list[str]]:
    problems: list[Problem] = []
    names = [span.name for decoded in read_traces(path, KEEP, problems=problems) for span in decoded.spans]
    return names, [str(problem) for problem in problems]


@pytest.mark.parametrize("packed", [pytest.param(False, id="plain"), pytest.param(True, id="gzip")])
@pytest.mark.parametrize(
    ("content", "names"),
    [
        pytest.param(to_json(ONE), ["span 1"], id="JSON document"),
        pytest.param(b"\xef\xbb\xbf" + to_json(ONE), ["span 1"], id="JSON with a byte order mark"),
        pytest.param(b"\n \n" + to_json(ONE), ["span 1"], id="JSON behind white space"),
        pytest.param(PRETTY, ["span 1"], id="JSON over several lines"),
        pytest.param(LINES, ["span 1", "span 2", "span 3"], id="JSON lines"),
        pytest.param(LINES.replace(b"\n", b"\r\n\r\n"), ["span 1", "span 2", "span 3"], id="JSON lines from Windows, with empty ones"),
        pytest.param(LINES.rstrip(), ["span 1", "span 2", "span 3"], id="JSON lines without a last end of line"),
        pytest.param(LOGS + LINES + LOGS, ["span 1", "span 2", "span 3"], id="JSON lines with logs between them"),
        pytest.param(ONE.SerializeToString(), ["span 1"], id="protobuf"),
        pytest.param(LONG.SerializeToString(), [f"span {number}" for number in range(1, 100)], id="longer protobuf"),
        pytest.param(LIKE_JSON.SerializeToString(), ["span 1"], id="protobuf that begins like JSON"),
        pytest.param(RECORDS, ["span 1", "span 2"], id="protobuf records"),
    ],
)
def test_every_format_is_told_by_its_content(tmp_path: Path, content: bytes, names: list[str], packed: bool) -> None:  # noqa: FBT001 - a column
    path = tmp_path / "a name that tells nothing"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert read(path) == (names, [])
    assert read(str(path)) == (names, [])


def test_the_sample_that_looks_like_json_does() -> None:
    assert LIKE_JSON.SerializeToString()[:2] == b"\n{"


JAEGER = {"data": [{"traceID": "5b8e", "spans": [{"traceID": "5b8e"}]}]}
ZIPKIN = [{"traceId": "5b8e", "id": "eee1", "name": "x"}]
CONSOLE = {"name": "x", "context": {"trace_id": "0x5b8e", "span_id": "0xeee1"}, "kind": "SpanKind.INTERNAL"}
EVAL_SET = {"name": "x", "evaluatorRefs": [], "evaluations": []}
UNKNOWN = "this is JSON but not OTLP: no resourceSpans"


@pytest.mark.parametrize(
    ("content", "names", "problems"),
    [
        pytest.param(b"", [], ["{}: no spans in it"], id="empty"),
        pytest.param(b" \n\n", [], ["{}: no spans in it"], id="blank"),
        pytest.param(b"{}", [], ["{}:1: " + UNKNOWN], id="empty object"),
        pytest.param(b'{"resourceSpans": []}', [], ["{}: no spans in it"], id="no spans"),
        pytest.param(LOGS, [], ["{}: no spans in it"], id="logs alone"),
        pytest.param(b'{"resource_spans": []}', [], ["{}:1: request: it spells resourceSpans as resource_spans"], id="snake_case"),
        pytest.param(LINES[:-20], ["span 1", "span 2"], ["{}:3: the last line is cut off"], id="last line cut"),
        pytest.param(b"{x}\n" + LINES, ["span 1", "span 2", "span 3"], ["{}:1: line 1 column 2: not JSON"], id="bad first line"),
        pytest.param(
            LINES + b"{x}\n" + LINES, ["span 1", "span 2", "span 3"] * 2, ["{}:4: line 1 column 2: not JSON"], id="bad line between"
        ),
        pytest.param(
            LINES + b'{"resourceSpans": 1}\n', ["span 1", "span 2", "span 3"], ["{}:4: resourceSpans: expected a list"], id="wrong type"
        ),
        pytest.param(to_json(ONE)[:-9], [], ["{}: the document is cut off"], id="document cut"),
        pytest.param(PRETTY[:-9], [], ["{}: the document is cut off"], id="long document cut"),
        pytest.param(PRETTY.replace(b'"name"', b"name"), [], ["{}: line "], id="document broken"),
        pytest.param(
            to_json(request_of(numbered(1), numbered(2, span_id=b""))),
            ["span 1"],
            ["{}:1: 1 span without a valid span_id"],
            id="a bad span",
        ),
        pytest.param(ONE.SerializeToString()[:-3], [], ["{}: not an OTLP request in protobuf, or cut off"], id="protobuf cut"),
        pytest.param(RECORDS[:-3], ["span 1"], ["{}:record 3: the last record is cut off"], id="record cut"),
        pytest.param(RECORDS + b"\0", ["span 1", "span 2"], ["{}:record 4: the last record is cut off"], id="length cut"),
        pytest.param(
            b"\0\0\0\2\x0a\x09" + RECORDS, ["span 1", "span 2"], ["{}:record 1: not an OTLP request in protobuf"], id="bad record"
        ),
        pytest.param(gzip.compress(LINES)[:-20], None, ["{}: the gzip data is damaged or cut off"], id="gzip cut"),
        pytest.param(gzip.compress(LINES)[:30] + b"?" * 99, None, ["{}: the gzip data is damaged or cut off"], id="gzip damaged"),
        pytest.param(b"\x1f\x8b rubbish", [], ["{}: can't be read: damaged gzip data"], id="no gzip"),
        pytest.param(json.dumps(JAEGER).encode(), [], ["{}:1: this looks like a Jaeger export"], id="Jaeger"),
        pytest.param(json.dumps(JAEGER["data"][0]).encode(), [], ["{}:1: this looks like a Jaeger export"], id="Jaeger, one trace"),
        pytest.param(json.dumps(ZIPKIN, indent=1).encode(), [], ["{}:1: this looks like a Zipkin export"], id="Zipkin"),
        pytest.param(json.dumps(CONSOLE).encode(), [], ["{}:1: this looks like the output of the SDK's ConsoleSpanExporter"], id="console"),
        pytest.param(
            json.dumps(CONSOLE, indent=4).encode() * 2, [], ["{}: this looks like the output of the SDK's Console"], id="console, two spans"
        ),
        pytest.param(
            json.dumps(EVAL_SET).encode(), [], ["{}:1: this is a criteria file, not traces; pass it with --criteria"], id="eval set"
        ),
        pytest.param(
            b"name: x\ncriteria:\n  - y\n", [], ["{}: this is a criteria file, not traces; pass it with --criteria"], id="criteria"
        ),
        pytest.param(b"[1]", [], ["{}:1: " + UNKNOWN], id="a list"),
        pytest.param(b"[]", [], ["{}:1: " + UNKNOWN], id="an empty list"),
        pytest.param(b"# Read me\n", [], ["{}: this is text, and not OTLP"], id="text"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0", [], ["{}: this is binary, and not OTLP"], id="picture"),
        pytest.param(b"\x28\xb5\x2f\xfd\0\0", [], ["{}: this is compressed with zstd; unpack it first"], id="zstd"),
        pytest.param(b"\0\0\0\x20\x28\xb5\x2f\xfd", [], ["{}: this is compressed with zstd; unpack it first"], id="zstd records"),
    ],
)
def test_what_can_not_be_used_is_told_with_its_place_and_the_rest_is_read(
    tmp_path: Path, content: bytes, names: list[str] | None, problems: list[str]
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(content)
    found, told = read(path)
    if names is not None:
        assert found == names
    assert len(told) == len(problems)
    for problem, expected in zip(told, problems, strict=True):
        assert problem.startswith(expected.replace("{}", str(path)))
        assert problem.partition("; ")[2]


def test_a_file_that_is_not_there_and_one_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(tmp_path / "none")[1] == [f"{tmp_path}/none: can't be read: no such file or directory; check the path and its permissions"]

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(otlp_file, "open_stream", refuse)
    assert read(tmp_path / "locked")[1] == [f"{tmp_path}/locked: can't be read: permission denied; check the path and its permissions"]


def test_many_problems_of_one_file_are_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(LINES + b"{x}\n" * 1000)
    names, problems = read(path)
    assert len(names) == 3
    assert len(problems) == 21
    assert problems[-1] == f"{path}: 980 more problems of this kind; mend the first ones"


def test_standard_input_is_read_and_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(gzip.compress(LINES))

    monkeypatch.setattr(sys, "stdin", Input)
    assert read("-") == (["span 1", "span 2", "span 3"], [])
    assert not Input.buffer.closed
    assert read("-") == ([], ["standard input: no spans in it; record traces while the agent runs"])


def test_a_folder_is_read_in_the_order_of_its_names_and_passes_over_what_is_no_trace(tmp_path: Path) -> None:
    for name, content in {
        "b/2.jsonl": to_json(TWO),
        "a.gz": gzip.compress(to_json(ONE)),
        "c.bin": THREE.SerializeToString(),
        "README.md": b"# Read me",
        "truth.json": b'{"calls": []}',
        "criteria.yaml": b"criteria: []",
        ".hidden/x.jsonl": to_json(ONE),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    names, problems = read(tmp_path)
    assert (names, problems) == (["span 1", "span 3", "span 2"], [])
    (tmp_path / "jaeger.json").write_bytes(json.dumps(JAEGER).encode())
    (tmp_path / "cut.json").write_bytes(to_json(ONE)[:-5])
    names, problems = read(tmp_path)
    assert names == ["span 1", "span 3", "span 2"]
    assert [problem.split(": ")[0] for problem in problems] == [str(tmp_path / "cut.json"), f"{tmp_path}/jaeger.json:1"]


def test_a_folder_of_recordings_is_read_beside_their_truth_files() -> None:
    names, problems = read(Path(__file__).parents[1] / "golden" / "corpus" / "uipath")
    assert len(names) > 10
    assert problems == []


def test_a_folder_without_traces_says_so(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(b"# Read me")
    assert read(tmp_path) == ([], [f"{tmp_path}: no OTLP traces in this folder; name a file or folder with recorded traces"])


@pytest.mark.parametrize("packed", [pytest.param(False, id="plain"), pytest.param(True, id="gzip")])
def test_progress_adds_up_to_the_size_of_the_file(tmp_path: Path, packed: bool) -> None:  # noqa: FBT001 - a column
    path = tmp_path / "traces"
    path.write_bytes(gzip.compress(LINES * 1000) if packed else LINES * 1000)
    steps: list[int] = []
    for _ in read_traces(path, KEEP, problems=[], progress=steps.append):
        pass
    assert sum(steps) == path.stat().st_size


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    span = numbered(1)
    span.attributes.append(attribute("gen_ai.input.messages", "x" * 200_000))
    line = to_json(request_of(span)) + b"\n"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(line)
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    count = sum(decoded.received for decoded in read_traces(path, KEEP, problems=[]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 100
    assert peak < 4_000_000  # two buffers of 1 MiB, and a few copies of a line


@pytest.mark.parametrize(
    ("content", "what"),
    [
        pytest.param(b'{"a":\n' + LINES, "larger than 0 MiB as one document; write one request a line", id="document"),
        pytest.param(to_json(ONE) + b"\n" + LINES.replace(b"\n", b" "), "the line is longer than 0 MiB; split it", id="line"),
        pytest.param(LONG.SerializeToString(), "larger than 0 MiB; split it into several requests", id="protobuf"),
        pytest.param((10_000).to_bytes(4) + LONG.SerializeToString() * 2, "larger than 0 MiB; split it into several requests", id="record"),
    ],
)
def test_what_is_too_large_for_memory_says_how_to_make_it_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, what: str
) -> None:
    monkeypatch.setattr(otlp_file, "MAX_DOCUMENT_BYTES", 600)
    path = tmp_path / "traces"
    path.write_bytes(content)
    _, (problem, *_) = read(path)
    assert what in problem
