"""Holds the rooms of the package: who may import whom, and what the core may not touch.

Each rule is a function from a module's path and text to the faults in it, so that every rule is shown to fail on a bad text
before it is held against the real modules. Only imports and calls that can be read off the text are seen.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = "otel_toolcall_eval"
ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 500

# From the top down. A module imports only from its own room and from lines below it; rooms on one line never import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__init__",),
    ("__main__",),
    ("cli",),
    ("demo",),
    ("sidecar",),
    ("auto", "pytest_plugin"),
    ("environment_variables",),
    ("expectations",),
    ("api", "processor"),
    ("in_process", "registration", "wiring_files", "wiring_sidecar"),
    ("wiring_judging",),
    ("wiring",),
    ("processes", "receivers", "wiring_forwarding", "wiring_status", "wiring_telemetry"),
    ("status",),
    ("sources", "settings", "forwarding", "emission", "journal", "process_limits", "zstandard"),
    ("worker",),
    ("journaling", "reporting"),
    ("accounts", "clock", "emitter", "ending", "endpoint", "generator_steps", "judges", "notices", "pace", "renewed"),
    ("suppression", "taking", "token_file", "work_queue"),
    ("work_items",),
    ("pipeline",),
    ("wire", "assembly", "extraction", "binding", "evaluators", "judging"),
    ("values",),
    ("model",),
    ("errors",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
CORE_FROM = LEVEL["pipeline"]

# The standard library as far as it has no clock, thread, socket, file, randomness or log. A list of what is allowed, since a list of
# what is forbidden would miss the next module; add to it what has none of these.
# fmt: off
PURE_STANDARD_LIBRARY = frozenset({
    "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "cmath", "collections", "copy", "dataclasses", "decimal",
    "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json", "keyword", "marshal", "math", "numbers",
    "operator", "re", "reprlib", "statistics", "string", "struct", "textwrap", "types", "typing", "unicodedata", "weakref", "zlib",
})
# fmt: on
# From modules that have some of that too, these names alone.
PURE_NAMES = frozenset({"sys.getsizeof", "sys.intern", "sys.maxsize"})
FORBIDDEN_CALLS = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"})
# Decoding OTLP is what the room is for. The machine's integers are a type for mypyc alone, and never imported when the code runs.
THIRD_PARTY = {"wire": ("google.protobuf", "google.rpc", "opentelemetry.proto", "mypy_extensions.i64")}

FORBIDDEN_NAMES = frozenset({"common", "helper", "helpers", "misc", "util", "utils"})


def room_of(path: PurePosixPath) -> str:
    """Return the room that a module of the package stands in; ``path`` is relative to the package."""
    return path.parts[0].removesuffix(".py")


def imported_modules(path: PurePosixPath, text: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything that a module imports, for types only or for good."""
    package = (PACKAGE, *path.parts[:-1])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            for alias in node.names:
                # `from otel_toolcall_eval import wire` names a room, `from otel_toolcall_eval import evaluate` a name of the top level.
                yield node.lineno, f"{module}.{alias.name}"


def direction_faults(path: PurePosixPath, text: str) -> list[str]:
    """Return the imports that go up, or sideways into another room of the same line."""
    room = room_of(path)
    if room not in LEVEL:
        return [f"{path}: '{room}' is no room; give it a line in LAYERS and in the house style"]
    faults = []
    for line, name in imported_modules(path, text):
        top, *rest = name.split(".")
        if top != PACKAGE:
            continue
        target = rest[0] if rest and rest[0] in LEVEL else "__init__"
        if target != room and LEVEL[target] <= LEVEL[room]:
            way = "sideways" if LEVEL[target] == LEVEL[room] else "upward"
            faults.append(f"{path}:{line}: {room} imports {way} from {target}")
    return faults


def purity_faults(path: PurePosixPath, text: str) -> list[str]:
    """Return what core code imports or calls and may not: clocks, threads, sockets, files, randomness, logs, third parties."""
    room = room_of(path)
    if LEVEL.get(room, 0) < CORE_FROM:
        return []
    faults = []
    for line, name in imported_modules(path, text):
        top = name.partition(".")[0]
        if top in PURE_STANDARD_LIBRARY or top == PACKAGE or name in PURE_NAMES:
            continue
        if any(name.startswith(f"{allowed}.") or name == allowed for allowed in THIRD_PARTY.get(room, ())):
            continue
        kind = "is not among the pure modules of the standard library" if top in sys.stdlib_module_names else "is third-party code"
        faults.append(f"{path}:{line}: {name} {kind}")
    faults.extend(
        f"{path}:{node.lineno}: {node.func.id}() has no place in the core"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS
    )
    return faults


def size_faults(path: PurePosixPath, text: str) -> list[str]:
    """Return a fault if the file has more than MAX_LINES lines."""
    lines = len(text.splitlines())
    return [f"{path}: {lines} lines, at most {MAX_LINES}; split it along what it knows"] if lines > MAX_LINES else []


def name_faults(path: PurePosixPath, _text: str) -> list[str]:
    """Return a fault if the module's or a folder's name says nothing about what is in it."""
    bad = [part for part in path.parts if part.removesuffix(".py") in FORBIDDEN_NAMES]
    return [f"{path}: name the thing that is in '{part}', or put it beside its only caller" for part in bad]


def docstring_faults(path: PurePosixPath, text: str) -> list[str]:
    """Return a fault if a room does not say what comes in, what goes out, and what it may not do."""
    if path.name != "__init__.py" or len(path.parts) == 1:
        return []
    docstring = ast.get_docstring(ast.parse(text)) or ""
    missing = [word for word in ("In:", "Out:", "May not:") if word not in docstring]
    return [f"{path}: the docstring lacks '{word}'" for word in missing]


RULES = [direction_faults, purity_faults, size_faults, name_faults, docstring_faults]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule(rule: Callable[[PurePosixPath, str], list[str]]) -> None:
    modules = sorted((ROOT / PACKAGE).rglob("*.py"))
    assert len(modules) > 1
    faults = [
        fault for module in modules for fault in rule(PurePosixPath(module.relative_to(ROOT / PACKAGE)), module.read_text(encoding="utf-8"))
    ]
    assert not faults, "\n".join(faults)


def test_every_room_exists() -> None:
    found = {path.stem for path in (ROOT / PACKAGE).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found == set(LEVEL)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("model/score.py", "from otel_toolcall_eval.values.text import read_text", id="upward"),
        pytest.param("errors.py", "import otel_toolcall_eval.model.trace", id="upward-plain-import"),
        pytest.param("model/score.py", "from otel_toolcall_eval import values", id="upward-from-the-package"),
        pytest.param("worker.py", "from otel_toolcall_eval import ToolCallCountEvaluator", id="upward-to-the-public-names"),
        pytest.param("model/score.py", "def f():\n    from otel_toolcall_eval.worker import Worker", id="upward-inside-a-function"),
        pytest.param(
            "binding.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from otel_toolcall_eval.pipeline import Pipeline",
            id="upward-for-types-only",
        ),
        pytest.param("evaluators/args.py", "from otel_toolcall_eval.extraction import dialect", id="sideways-in-the-core"),
        pytest.param("emission/events.py", "import otel_toolcall_eval.settings.service", id="sideways-at-the-edge"),
        pytest.param("wire/otlp_json.py", "from ..assembly import trace_buffer", id="sideways-relative"),
        pytest.param("wire/deep/otlp_json.py", "from ...pipeline import Pipeline", id="upward-relative-from-a-nested-module"),
        pytest.param("wire/__init__.py", "from ..assembly import trace_buffer", id="sideways-relative-from-a-room"),
        pytest.param("gadgets/thing.py", "", id="a-room-that-is-not-in-the-table"),
    ],
)
def test_an_import_in_the_wrong_direction_is_a_fault(path: str, text: str) -> None:
    assert len(direction_faults(PurePosixPath(path), text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("evaluators/args.py", "from otel_toolcall_eval.evaluators.matching import match", id="own-room"),
        pytest.param("evaluators/args.py", "from .matching import match", id="own-room-relative"),
        pytest.param("pipeline.py", "from otel_toolcall_eval import binding, errors", id="downward-from-the-package"),
        pytest.param("sidecar.py", "import otel_toolcall_eval.wiring", id="downward"),
        pytest.param("worker.py", "import otel_toolcall_eval_plugin.wiring", id="another-package-of-a-similar-name"),
    ],
)
def test_an_import_in_the_right_direction_is_none(path: str, text: str) -> None:
    assert direction_faults(PurePosixPath(path), text) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import time", id="clock"),
        pytest.param("from datetime import datetime", id="another-clock"),
        pytest.param("import threading", id="thread"),
        pytest.param("import concurrent.futures", id="thread-pool"),
        pytest.param("import asyncio", id="event-loop"),
        pytest.param("import socket", id="socket"),
        pytest.param("from urllib import request", id="http"),
        pytest.param("import pathlib", id="file"),
        pytest.param("import os.path", id="file-system"),
        pytest.param("import random", id="random"),
        pytest.param("from uuid import uuid4", id="random-id"),
        pytest.param("import logging", id="log"),
        pytest.param("import sys", id="standard-streams"),
        pytest.param("import pydantic", id="third-party"),
        pytest.param("from opentelemetry.sdk.trace import ReadableSpan", id="third-party-namespace"),
        pytest.param("open('traces.jsonl')", id="open"),
        pytest.param("print(1)", id="print"),
        pytest.param("eval('1')", id="eval"),
        pytest.param("def f():\n    import time", id="inside-a-function"),
        pytest.param("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import logging", id="for-types-only"),
    ],
)
@pytest.mark.parametrize("path", ["pipeline.py", "wire/otlp_json.py", "assembly/trace_buffer.py", "values/text.py", "errors.py"])
def test_what_the_core_may_not_touch_is_a_fault(path: str, text: str) -> None:
    assert len(purity_faults(PurePosixPath(path), text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("worker.py", "import threading, time, logging", id="the-worker-owns-thread-and-clock"),
        pytest.param("settings/service.py", "import pydantic\nopen('x')", id="an-edge-opens-files"),
        pytest.param("wire/otlp_protobuf.py", "from google.protobuf import descriptor_pb2", id="wire-has-protobuf"),
        pytest.param("wire/otlp_protobuf.py", "from opentelemetry.proto.trace.v1 import trace_pb2", id="wire-has-the-otlp-messages"),
        pytest.param("wire/otlp_json.py", "from sys import getsizeof", id="a-name-of-a-module-that-has-more"),
        pytest.param("evaluators/args.py", "import re\nre.compile('a')", id="a-method-of-a-forbidden-name"),
    ],
)
def test_what_a_room_may_touch_is_none(path: str, text: str) -> None:
    assert purity_faults(PurePosixPath(path), text) == []


@pytest.mark.parametrize("path", ["extraction/tool_calls.py", "pipeline.py"])
def test_only_the_wire_room_has_protobuf(path: str) -> None:
    assert len(purity_faults(PurePosixPath(path), "from google.protobuf import descriptor_pb2")) == 1


@pytest.mark.parametrize(("lines", "faults"), [pytest.param(MAX_LINES, 0, id="limit"), pytest.param(MAX_LINES + 1, 1, id="one-more")])
def test_a_file_over_the_line_limit_is_a_fault(lines: int, faults: int) -> None:
    assert len(size_faults(PurePosixPath("worker.py"), "x = 1\n" * lines)) == faults


@pytest.mark.parametrize(
    ("path", "faults"),
    [
        pytest.param("wire/utils.py", 1, id="module"),
        pytest.param("common/__init__.py", 1, id="folder"),
        pytest.param("evaluators/matching.py", 0, id="named-after-what-it-does"),
    ],
)
def test_a_name_that_says_nothing_is_a_fault(path: str, faults: int) -> None:
    assert len(name_faults(PurePosixPath(path), "")) == faults


@pytest.mark.parametrize(
    ("path", "text", "faults"),
    [
        pytest.param("wire/__init__.py", '"""OTLP.\n\nIn: bytes. Out: spans. May not: open anything.\n"""', 0, id="complete"),
        pytest.param("wire/__init__.py", '"""OTLP.\n\nIn: bytes. Out: spans.\n"""', 1, id="incomplete"),
        pytest.param("wire/__init__.py", "", 3, id="none"),
        pytest.param("__init__.py", "", 0, id="the-package-itself-is-no-room"),
    ],
)
def test_a_room_without_its_three_lines_is_a_fault(path: str, text: str, faults: int) -> None:
    assert len(docstring_faults(PurePosixPath(path), text)) == faults


def test_nothing_holds_a_lock_that_a_fork_would_find_held() -> None:
    # Until Python 3.12 a cached property has one lock for all instances; in the child its holder, the judging thread, is not there.
    modules = (ROOT / PACKAGE).rglob("*.py")
    assert [
        module.name for module in modules if "cached_property" in module.read_text(encoding="utf-8").replace("No cached_property", "")
    ] == []
