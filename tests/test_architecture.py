"""Holds the layers of the package: which room may import which, what the core may not touch, and how large and unique things are.

The table of layers is read from ``docs/architecture.md``, so that the page and the rule cannot disagree. Each rule is a function from a
module's path and text to the faults in it, and is shown to fail on a bad text before it is held against the real modules. Only imports
and calls that can be read off the text are seen.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PACKAGE = "otel_toolcall_eval"
ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
MAX_LINES = 500
"""What counts is how many files a reader must open for one task; beyond this a file holds more than one thing."""

MAX_ENTRIES = 13

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
# Decoding OTLP is what the room is for.
THIRD_PARTY = {"otlp": ("google.protobuf", "google.rpc", "opentelemetry.proto")}

FORBIDDEN_NAMES = frozenset({"common", "helper", "helpers", "misc", "util", "utils"})


def layers_in(page: str) -> tuple[tuple[str, ...], ...]:
    """Read the rooms of each layer, from the top down, out of the first column of the table below the heading "Layers"."""
    table = page.partition("\n## Layers\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    return tuple(tuple(re.findall(r"`(\w+)/?(?:\.py)?`", row)) for row in rows)


def edges_in(page: str) -> frozenset[str]:
    """Read which modules of the engine touch threads, clocks and logs: they are listed below the heading "The core"."""
    section = page.partition("\n## The core\n")[2].partition("\n## ")[0]
    return frozenset(re.findall(r"`(engine/\w+\.py)`", section))


LAYERS = layers_in(PAGE.read_text(encoding="utf-8"))
EDGES = edges_in(PAGE.read_text(encoding="utf-8"))
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


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
                # `from otel_toolcall_eval import otlp` names a room, `from otel_toolcall_eval import evaluate` a name of the top level.
                yield node.lineno, f"{module}.{alias.name}"


def direction_faults(path: PurePosixPath, text: str) -> list[str]:
    """Return the imports that go up, or sideways into another room of the same layer."""
    room = room_of(path)
    if room not in LEVEL:
        return [f"{path}: '{room}' is no room; give it a row in docs/architecture.md"]
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
    if LEVEL.get(room, 0) < LEVEL["engine"] or str(path) in EDGES:
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


def edge_faults(path: PurePosixPath, text: str) -> list[str]:
    """Return the imports by which the pure part of the core would reach a thread or a clock after all."""
    if LEVEL.get(room_of(path), 0) < LEVEL["engine"] or str(path) in EDGES:
        return []
    edges = {edge.removesuffix(".py").replace("/", ".") for edge in EDGES}
    return [
        f"{path}:{line}: the core imports the edge {name}"
        for line, name in imported_modules(path, text)
        if any(name.removeprefix(f"{PACKAGE}.").startswith(f"{edge}.") or name == f"{PACKAGE}.{edge}" for edge in edges)
    ]


def size_faults(path: PurePosixPath, text: str) -> list[str]:
    """Return a fault if the file is too long."""
    lines = len(text.splitlines())
    return [f"{path}: {lines} lines, at most {MAX_LINES}; split it along what it knows"] if lines > MAX_LINES else []


def name_faults(path: PurePosixPath, _text: str) -> list[str]:
    """Return a fault if the module's or a folder's name says nothing about what is in it."""
    bad = [part for part in path.parts if part.removesuffix(".py") in FORBIDDEN_NAMES]
    return [f"{path}: name the thing that is in '{part}', or put it beside its only caller" for part in bad]


def docstring_faults(path: PurePosixPath, text: str) -> list[str]:
    """Return a fault if a room does not say what comes in, what goes out, and what it may not do; a folder inside it, what it is."""
    if path.name != "__init__.py" or len(path.parts) == 1:
        return []
    docstring = ast.get_docstring(ast.parse(text)) or ""
    wanted = ("In:", "Out:", "May not:") if len(path.parts) == 2 else ("",)
    missing = [word for word in wanted if word not in docstring or not docstring]
    return [f"{path}: the docstring lacks '{word}'" if word else f"{path}: there is no docstring" for word in missing]


RULES = [direction_faults, purity_faults, edge_faults, size_faults, name_faults, docstring_faults]


def modules() -> Iterator[tuple[PurePosixPath, str]]:
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        yield PurePosixPath(path.relative_to(ROOT / PACKAGE)), path.read_text(encoding="utf-8")


def classes_by_name(sources: Mapping[PurePosixPath, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path}:{node.lineno}")
    return found


def dotted(path: PurePosixPath) -> str:
    parts = path.with_suffix("").parts
    return ".".join((PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)))


def imports_by_module(sources: Mapping[PurePosixPath, str]) -> dict[str, set[str]]:
    names = {dotted(path) for path in sources}
    found: dict[str, set[str]] = {}
    for path, text in sources.items():
        targets = set()
        for _, name in imported_modules(path, text):
            owner = name if name in names else name.rpartition(".")[0]
            if owner in names and owner != dotted(path):
                targets.add(owner)
        found[dotted(path)] = targets
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule(rule: Callable[[PurePosixPath, str], list[str]]) -> None:
    faults = [fault for path, text in modules() for fault in rule(path, text)]
    assert not faults, "\n".join(faults)


def test_the_page_names_every_room_and_no_other() -> None:
    found = {path.stem for path in (ROOT / PACKAGE).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found == set(LEVEL)
    assert len(found) <= MAX_ENTRIES


def test_every_edge_of_the_engine_exists() -> None:
    assert EDGES
    assert all((ROOT / PACKAGE / edge).exists() for edge in EDGES), EDGES


def test_no_class_name_stands_for_two_things() -> None:
    assert {name: places for name, places in classes_by_name(dict(modules())).items() if len(places) > 1} == {}


def test_no_file_imports_in_a_circle() -> None:
    TopologicalSorter(imports_by_module(dict(modules()))).prepare()  # raises CycleError, which names the circle


def test_what_the_pages_name_exists() -> None:
    named = {
        match
        for page in (PAGE, PAGE.with_name("adding-an-evaluator.md"))
        for match in re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert [path for path in sorted(named) if not any((folder / path).exists() for folder in (ROOT / PACKAGE, ROOT))] == []
    text = "".join(text for _, text in modules())
    tour = PAGE.read_text(encoding="utf-8").partition("\n## Five-minute tour\n")[2]
    for name in re.findall(r"`(?:\w+\.)?(\w+)`", tour):
        assert re.search(rf"(?:def|class) {name}\b|^{name}\b", text, re.MULTILINE) or name in {"pass", "fail", "inconclusive"}, name


def test_a_class_name_that_stands_twice_is_seen() -> None:
    sources = {PurePosixPath("model/a.py"): "class Span: ...", PurePosixPath("otlp/b.py"): "def f():\n    class Span: ..."}
    assert classes_by_name(sources) == {"Span": ["model/a.py:1", "otlp/b.py:2"]}


def test_a_circle_of_imports_is_seen() -> None:
    sources = {
        PurePosixPath("model/a.py"): f"from {PACKAGE}.model.b import B",
        PurePosixPath("model/b.py"): f"def f():\n    from {PACKAGE}.model import a",
    }
    with pytest.raises(CycleError):
        TopologicalSorter(imports_by_module(sources)).prepare()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("model/score.py", "from otel_toolcall_eval.otlp.varint import varint", id="upward"),
        pytest.param("model/errors.py", "import otel_toolcall_eval.otlp.varint", id="upward-plain-import"),
        pytest.param("model/score.py", "from otel_toolcall_eval import otlp", id="upward-from-the-package"),
        pytest.param("engine/worker.py", "from otel_toolcall_eval import ToolCallCountEvaluator", id="upward-to-the-public-names"),
        pytest.param("model/score.py", "def f():\n    from otel_toolcall_eval.engine.worker import Worker", id="upward-inside-a-function"),
        pytest.param(
            "evaluators/args.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from otel_toolcall_eval.engine.pipeline import Pipeline",
            id="upward-for-types-only",
        ),
        pytest.param("evaluators/args.py", "from otel_toolcall_eval.extraction import dialect", id="sideways-in-the-core"),
        pytest.param("exporters/events/x.py", "import otel_toolcall_eval.receivers.intake", id="sideways-at-the-edge"),
        pytest.param("sidecar/build.py", "import otel_toolcall_eval.inprocess.build", id="sideways-at-the-top"),
        pytest.param("otlp/json.py", "from ..extraction import dialect", id="sideways-relative"),
        pytest.param("otlp/deep/json.py", "from ...engine.pipeline import Pipeline", id="upward-relative-from-a-nested-module"),
        pytest.param("otlp/__init__.py", "from ..extraction import dialect", id="sideways-relative-from-a-room"),
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
        pytest.param("engine/pipeline.py", "from otel_toolcall_eval import extraction, model", id="downward-from-the-package"),
        pytest.param("sidecar/build.py", "import otel_toolcall_eval.settings.service", id="downward"),
        pytest.param("engine/worker.py", "import otel_toolcall_eval_plugin.wiring", id="another-package-of-a-similar-name"),
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
@pytest.mark.parametrize(
    "path", ["engine/pipeline.py", "otlp/protobuf.py", "engine/buffer/trace_buffer.py", "model/payload/text.py", "model/errors.py"]
)
def test_what_the_core_may_not_touch_is_a_fault(path: str, text: str) -> None:
    assert len(purity_faults(PurePosixPath(path), text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("engine/worker.py", "import threading, time, logging", id="the-worker-owns-thread-and-clock"),
        pytest.param("settings/service.py", "import pydantic\nopen('x')", id="an-edge-opens-files"),
        pytest.param("otlp/protobuf.py", "from google.protobuf import descriptor_pb2", id="otlp-has-protobuf"),
        pytest.param("otlp/protobuf.py", "from opentelemetry.proto.trace.v1 import trace_pb2", id="otlp-has-the-otlp-messages"),
        pytest.param("otlp/json.py", "from sys import getsizeof", id="a-name-of-a-module-that-has-more"),
        pytest.param("evaluators/args.py", "import re\nre.compile('a')", id="a-method-of-a-forbidden-name"),
    ],
)
def test_what_a_room_may_touch_is_none(path: str, text: str) -> None:
    assert purity_faults(PurePosixPath(path), text) == []


@pytest.mark.parametrize("path", ["extraction/tool_calls.py", "engine/pipeline.py"])
def test_only_otlp_has_protobuf(path: str) -> None:
    assert len(purity_faults(PurePosixPath(path), "from google.protobuf import descriptor_pb2")) == 1


@pytest.mark.parametrize(
    ("path", "faults"),
    [
        pytest.param("engine/pipeline.py", 1, id="the-core"),
        pytest.param("engine/buffer/memory.py", 1, id="a-folder-of-the-core"),
        pytest.param("engine/work_queue.py", 0, id="another-edge"),
        pytest.param("exporters/console.py", 0, id="a-room-above"),
    ],
)
def test_the_core_that_imports_an_edge_is_a_fault(path: str, faults: int) -> None:
    assert len(edge_faults(PurePosixPath(path), "from otel_toolcall_eval.engine.worker import Worker")) == faults


@pytest.mark.parametrize(("lines", "faults"), [pytest.param(MAX_LINES, 0, id="limit"), pytest.param(MAX_LINES + 1, 1, id="one-more")])
def test_a_file_over_the_line_limit_is_a_fault(lines: int, faults: int) -> None:
    assert len(size_faults(PurePosixPath("engine/worker.py"), "x = 1\n" * lines)) == faults


@pytest.mark.parametrize(
    ("path", "faults"),
    [
        pytest.param("otlp/utils.py", 1, id="module"),
        pytest.param("common/__init__.py", 1, id="folder"),
        pytest.param("evaluators/matching.py", 0, id="named-after-what-it-does"),
    ],
)
def test_a_name_that_says_nothing_is_a_fault(path: str, faults: int) -> None:
    assert len(name_faults(PurePosixPath(path), "")) == faults


@pytest.mark.parametrize(
    ("path", "text", "faults"),
    [
        pytest.param("otlp/__init__.py", '"""OTLP.\n\nIn: bytes. Out: spans. May not: open anything.\n"""', 0, id="complete"),
        pytest.param("otlp/__init__.py", '"""OTLP.\n\nIn: bytes. Out: spans.\n"""', 1, id="incomplete"),
        pytest.param("otlp/__init__.py", "", 3, id="none"),
        pytest.param("receivers/grpc/__init__.py", '"""OTLP over gRPC."""', 0, id="a-folder-in-a-room"),
        pytest.param("receivers/grpc/__init__.py", "", 1, id="a-folder-in-a-room-that-says-nothing"),
        pytest.param("__init__.py", "", 0, id="the-package-itself-is-no-room"),
    ],
)
def test_a_room_that_does_not_say_what_it_is_for_is_a_fault(path: str, text: str, faults: int) -> None:
    assert len(docstring_faults(PurePosixPath(path), text)) == faults


def test_nothing_holds_a_lock_that_a_fork_would_find_held() -> None:
    # Until Python 3.12 a cached property has one lock for all instances; in the child its holder, the evaluating thread, is not there.
    assert [str(path) for path, text in modules() if "cached_property" in text.replace("No cached_property", "")] == []
