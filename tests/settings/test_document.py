from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_toolcall_eval.settings import document
from otel_toolcall_eval.settings.diagnostics import Diagnostics, Spelling
from otel_toolcall_eval.settings.document import read_document
from tests.settings.loading import shown, write


def complaints(folder: Path, name: str, content: str | bytes) -> list[str]:
    diagnostics = Diagnostics()
    read = read_document(write(folder, {name: content}) / name, diagnostics)
    assert (read is None) == bool(diagnostics.problems)
    return shown(diagnostics.problems, folder)


@pytest.mark.parametrize(
    ("name", "content", "spelling"),
    [
        pytest.param("a.json", '{"a": [1, 2.5, true, null, "x"]}', Spelling.CAMEL, id="json"),
        pytest.param("a.yaml", "a: [1, 2.5, true, null, x]", Spelling.SNAKE, id="yaml"),
        pytest.param("a.YML", "a: [1, 2.5, true, null, x]", Spelling.SNAKE, id="yml-in-capitals"),
        pytest.param("a", '{"a": [1, 2.5, true, null, "x"]}', Spelling.CAMEL, id="without-suffix"),
        pytest.param("a.json", b'\xef\xbb\xbf{"a": [1, 2.5, true, null, "x"]}', Spelling.CAMEL, id="json-with-a-byte-order-mark"),
        pytest.param("a.yaml", b"\xef\xbb\xbfa: [1, 2.5, true, null, x]", Spelling.SNAKE, id="yaml-with-a-byte-order-mark"),
    ],
)
def test_both_formats_give_the_same_values(tmp_path: Path, name: str, content: str | bytes, spelling: Spelling) -> None:
    read = read_document(write(tmp_path, {name: content}) / name, Diagnostics())
    assert read is not None
    assert read.value == {"a": [1, 2.5, True, None, "x"]}
    assert read.place.spelling is spelling


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param(
            "a.json", '{"a": 1, "b": {"c": 1, "c": 2}}', "a.json: b: the key 'c' stands twice; remove one of them", id="key-twice"
        ),
        pytest.param("a.json", '[{"a": 1, "a": 2}]', "a.json: [0]: the key 'a' stands twice; remove one of them", id="key-twice-in-a-list"),
        pytest.param("a.json", "", "a.json:1: the file is empty; mend the syntax", id="empty"),
        pytest.param("a.json", '{\n"a": ,}', "a.json:2: not valid JSON in column 6: Expecting value; mend the syntax", id="syntax"),
        pytest.param("a.json", "[NaN]", "a.json: [0]: the number is not finite; use a finite number, or text", id="nan"),
        pytest.param("a.json", "[1e999]", "a.json: [0]: the number is not finite; use a finite number, or text", id="infinity"),
        pytest.param("a.yaml", "- .inf", "a.yaml:1: [0]: the number is not finite; use a finite number, or text", id="infinity-in-yaml"),
        pytest.param("a.yaml", "- .NaN", "a.yaml:1: [0]: the number is not finite; use a finite number, or text", id="nan-in-yaml"),
        pytest.param("a.json", f"[{'9' * 100_001}]", "a.json: a number is too long; write it as text", id="number-of-any-cost"),
        pytest.param("a.json", b'["\xff"]', "a.json: byte 2 is not UTF-8; save the file as UTF-8", id="not-utf-8"),
        pytest.param(
            "a.yaml", "a: 1\na: 2", "a.yaml:2: the key 'a' stands twice, first in line 1; remove one of them", id="yaml-key-twice"
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(tmp_path: Path, name: str, content: str | bytes, expected: str) -> None:
    assert complaints(tmp_path, name, content) == [expected]


def test_a_doubled_key_inside_the_value_that_another_one_replaced_is_told_too(tmp_path: Path) -> None:
    found = complaints(tmp_path, "a.json", '{"a": {"b": 1, "b": 2}, "a": 1}')
    assert found == ["a.json: a: the key 'b' stands twice; remove one of them", "a.json: the key 'a' stands twice; remove one of them"]


@pytest.mark.parametrize("depth", [pytest.param(150, id="a-little"), pytest.param(200_000, id="beyond-the-interpreter")])
def test_json_without_an_end_to_its_nesting_is_refused(tmp_path: Path, depth: int) -> None:
    (complaint,) = complaints(tmp_path, "a.json", "[" * depth + "]" * depth)
    assert "nested" in complaint


def test_integers_of_any_length_are_exact(tmp_path: Path) -> None:
    read = read_document(write(tmp_path, {"a.json": f"[{'9' * 5000}]"}) / "a.json", Diagnostics())
    assert read is not None
    assert read.value == [10**5000 - 1]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    assert read_document(tmp_path / "none.json", diagnostics) is None
    assert shown(diagnostics.problems, tmp_path) == [
        "none.json: the file can't be read (No such file or directory); check its name and permissions",
    ]


def test_a_path_with_a_nul_is_told(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    assert read_document(tmp_path / "a\0b", diagnostics) is None
    assert [problem.what for problem in diagnostics.problems] == ["the file can't be read (not a usable path)"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    assert read_document(tmp_path, diagnostics) is None
    assert shown(diagnostics.problems, tmp_path) == [".: this is not a regular file; name a .json or .yaml file"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in the file system")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    diagnostics = Diagnostics()
    assert read_document(tmp_path / "pipe.yaml", diagnostics) is None
    assert shown(diagnostics.problems, tmp_path) == ["pipe.yaml: this is not a regular file; name a .json or .yaml file"]


def test_a_file_beyond_the_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_JSON_BYTES", 1024 * 1024)
    assert complaints(tmp_path, "a.json", " " * (1024 * 1024 + 1)) == [
        "a.json: the file has 1.0 MiB, more than 1; split it; JSON may have 16 MiB, YAML 2"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that says it is empty and is not")
def test_a_file_that_grows_beyond_the_bound_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_JSON_BYTES", 16)
    diagnostics = Diagnostics()
    assert read_document(Path("/proc/self/status"), diagnostics) is None
    assert [problem.what for problem in diagnostics.problems] == ["the file has grown beyond 0 MiB"]


def test_the_yaml_library_is_loaded_for_yaml_alone() -> None:
    code = "import sys, otel_toolcall_eval.settings.build_pipeline; print('ruamel.yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
