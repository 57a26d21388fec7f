from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.model.trace import Span
from otel_toolcall_eval.settings.dialect_file import build_extractor, default_extractor, shipped_dialects

if TYPE_CHECKING:
    from pathlib import Path

ACME = """
dialects:
  - name: acme
    priority: 60
    match:
      all:
        - {attr: acme.step, equals: TOOL_USE}
        - {span_name: {regex: '^acme\\.(step|run)$'}}
    name_from: [{attr: acme.step.function}]
    arguments_from: [{attr: acme.step.in, decode: json, path: payload.args}]
"""


def _span(name: str = "acme.step") -> Span:
    attributes = {
        "acme.step": "TOOL_USE",
        "acme.step.function": "get_weather",
        "acme.step.in": '{"payload": {"args": {"city": "Paris"}}}',
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "other",
    }
    return Span(trace_id=bytes(16), span_id=bytes(8), name=name, start_unix_ns=0, end_unix_ns=1, attributes=attributes)


def test_the_shipped_dialects_are_read_once() -> None:
    assert shipped_dialects() is shipped_dialects()
    assert default_extractor() is build_extractor(())
    assert len(shipped_dialects()) > 80


def test_every_shipped_dialect_says_why_its_spans_are_no_calls() -> None:
    assert all(dialect.reason for dialect in shipped_dialects() if dialect.role in {"ignore", "wrapper", "model", "agent", "part"})


def test_no_shipped_dialect_needs_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    shipped_dialects.cache_clear()
    assert shipped_dialects()


def test_users_dialects_are_asked_before_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    path.write_text(ACME, encoding="utf-8")
    extractor = build_extractor([path])
    (call,) = extractor.extract([_span()]).calls
    assert (call.name, call.dialects, call.arguments.content.value) == ("get_weather", ("user:acme", "otel_genai"), {"city": "Paris"})
    (call,) = extractor.extract([_span("another")]).calls
    assert call.name == "other"


def test_json_files_do_as_well(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    path.write_text(json.dumps([{"name": "a", "match": {"all": [{"attr": "acme.step"}]}, "name_from": [{"value": "x"}]}]), encoding="utf-8")
    assert [call.name for call in build_extractor([path]).extract([_span()]).calls] == ["x"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(ACME.replace("priority", "prioriti"), "'prioriti' is not a known key; use 'priority'", id="typo"),
        pytest.param(ACME.replace("(step|run)", "(?=step)"), "not a regular expression (invalid perl operator: (?=)", id="look-ahead"),
        pytest.param("dialects: [", "acme.yaml", id="no yaml"),
    ],
)
def test_a_bad_file_is_told_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "acme.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        build_extractor([path])
    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        build_extractor([tmp_path / "none.yaml"])
