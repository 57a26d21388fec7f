"""Builds wheels for one platform, whose core is compiled by mypyc. Off unless HATCH_BUILD_HOOK_ENABLE_CUSTOM=true.

The sources are the same. Before mypyc reads them, what it can't do as well as Python is written out (``native_form``), in a copy:

- The ``__init__`` that ``dataclass`` makes stays interpreted, and takes 2.5 us for a frozen class; written out and compiled, 0.1 us. For
  code that is not compiled the class is as frozen as before. Likewise what ``object.__setattr__`` sets there later, in 1,100 instructions,
  and ``__eq__``, ``__hash__`` and ``__repr__``, each of which it makes by compiling a text at every start, in 0.1 ms.
- An object can't change its class. A draft's ``finish`` makes the object that the draft turns into in Python.
- Types of a dataclass's fields are looked up when the class is made, so their imports are none for type checkers alone.
- A name of a module is looked up in a dictionary at each use, in 130 instructions, unless it is ``Final``: then it is a variable of C, or,
  for a number or a text, stands in the code itself. So each that is assigned once becomes it. Members of enumerations are variables of C
  without that.
- The garbage collector looks at all objects of its classes. Those that most objects are of and that are never in a cycle (``ACYCLIC``)
  are kept from it, which spares its time, and 16 bytes each.

The alternative, native classes with explicit constructors in the sources, would make the pure form longer, slower, or not frozen. Cost: the
lines that tracebacks name are those of the copy, a few below those of the sources. Rejected, too: hatch-mypyc, which could not write things
out, and has had no release since February 2023.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE: Final = "otel_toolcall_eval"
CORE: Final = (
    "assembly",
    "evaluators",
    "extraction",
    "model",
    "values",
    "wire",
    "binding.py",
    "judging.py",
    "pipeline.py",
    "emission/attributes.py",
    "emission/batch.py",
    "emission/batched_events.py",
    "emission/cells.py",
    "emission/judged_services.py",
    "emission/judged_span.py",
    "emission/metrics.py",
    "emission/shapes.py",
)
"""What is compiled, named in the package: what a span or a trace passes through, strictly typed, without I/O."""

ACYCLIC: Final = frozenset(
    {
        "Candidate",
        "Content",
        "Decoded",
        "ExpectationOutcome",
        "Extraction",
        "Found",
        "Given",
        "OpenTrace",
        "PackedSpans",
        "Payload",
        "Recorded",
        "Resource",
        "Scope",
        "Score",
        "Span",
        "SpanDraft",
        "ToolCall",
        "ToolCallDraft",
        "Trace",
        "TraceReport",
        "Verdict",
    }
)
"""Classes of which no object leads back to itself, which a test looks into: such a one would never be freed."""

TYPES: Final = "[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n"
"""mypy's settings. ``make types`` is strict; here types only steer, and what is not compiled may lack the packages that it imports."""


_LOWERED: Final = frozenset({"MAX_BOUND_TRACES", "MAX_LOOKS", "MAX_REMEMBERED", "MAX_STEPS"})
"""Bounds that tests set lower, so they have to stay names that can be set. None of them is read for each span."""

_MAKE_TYPES: Final = frozenset({"TypeVar", "ParamSpec", "NewType", "NamedTuple"})
_PICKLED: Final = re.compile(r"(?:Error|Exception|Enum|Protocol(?:\[.*\])?|NamedTuple|dict\[.*\])$")
_KEPT_FROM_THE_COLLECTOR: Final = (
    "from typing import TYPE_CHECKING",
    "if TYPE_CHECKING: from mypy_extensions import mypyc_attr",  # in one line, so that it stays one for type checkers alone
    "@mypyc_attr(acyclic=True)",
)
_NO_PICKLE: Final = (
    "",
    "    def __reduce__(self) -> tuple[object, ...]:",
    '        raise TypeError("objects of the compiled core can\'t be pickled or copied; install the pure form, or pass on plain values")',
)
"""For all classes but those on such bases: mypyc's would be pickled, and fail where they are read, which ends a pool of processes."""


class CompiledHook(BuildHookInterface):  # type: ignore[type-arg] # the builder's configuration, which is not looked at
    """What hatchling calls before it packs a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the core of a copy, and put the libraries into the wheel beside the sources; an editable install stays pure."""
        if version == "editable":
            return
        if (compiler := missing_compiler()) is not None:
            message = (
                f"there is no C compiler named {compiler}, which HATCH_BUILD_HOOK_ENABLE_CUSTOM=true needs: install one (Debian, Ubuntu:"
                " apt-get install gcc python3-dev), or leave the variable out for the pure form"
            )
            raise RuntimeError(message)
        folder = Path(tempfile.mkdtemp(prefix="compiled-"))
        self._folder = folder
        shutil.copytree(Path(self.root) / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        try:
            # In a process of its own, since setuptools and mypyc work in the current folder.
            subprocess.run([sys.executable, str(Path(__file__).resolve()), str(folder)], check=True)  # noqa: S603 - this file
        except BaseException:  # ``finalize`` is not called then
            shutil.rmtree(folder)
            raise
        build_data["force_include"].update({str(path): str(path.relative_to(folder)) for path in libraries(folder)})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's signature
        """Remove the copy."""
        if version != "editable":
            shutil.rmtree(self._folder)


def missing_compiler() -> str | None:
    """Return the name of the C compiler that setuptools will call, if there is no such program; None if there is, or it can't be told."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return compiler if os.name == "posix" and shutil.which(compiler) is None else None


def libraries(folder: Path) -> list[Path]:
    """Return what was compiled: one library for each module, and one that holds the code of all, at the top."""
    return sorted(path for kind in ("so", "pyd") for path in (*folder.glob(f"*.{kind}"), *(folder / PACKAGE).rglob(f"*.{kind}")))


def core_of(folder: Path) -> list[Path]:
    """Return the modules to compile. A room's ``__init__`` holds nothing but a docstring."""
    found = [folder / PACKAGE / name for name in CORE]
    paths = [path for one in found for path in (one.glob("*.py") if one.is_dir() else (one,))]
    return sorted(path for path in paths if path.name != "__init__.py")


def native_form(source: str) -> str:
    """Return a module with what mypyc needs written out; as it is, if it has neither dataclasses nor drafts, nor names of its own."""
    lines = source.splitlines()
    tree = ast.parse(source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    _write_finals(tree, lines)
    _write_settings(tree, lines)
    for one in reversed(classes):  # from below, so that the places above stay true
        if not any(_PICKLED.search(ast.unparse(base)) for base in one.bases) and not _has(one, "__reduce__"):
            lines[one.end_lineno or 0 : one.end_lineno or 0] = _NO_PICKLE
        decorator = _decorator(one)
        if decorator is not None:
            _write_init(one, decorator, lines)
        elif one.name.endswith("Draft"):
            _write_finish(one, lines)
        if one.name in ACYCLIC:
            first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
            lines[first - 1 : first - 1] = _KEPT_FROM_THE_COLLECTOR
    if any(_decorator(one) for one in classes):
        lines = ["if True:" if line == "if TYPE_CHECKING:" else line for line in lines]
        # But for the machine's integers, which only the compiler knows: no environment need have that package.
        lines = [
            line.replace("    from mypy_ext", "    if TYPE_CHECKING: from mypy_ext") if "from mypy_ext" in line else line for line in lines
        ]
    return "\n".join(lines) + "\n"


def _write_finals(tree: ast.Module, lines: list[str]) -> None:
    """Make the names of a module ``Final`` that keep what they are given: nothing else in it assigns to that name, not even locally."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    once = {name for name, times in Counter(node.id for node in names if not isinstance(node.ctx, ast.Load)).items() if times == 1}
    once -= {"__all__", *_LOWERED}
    before = list(lines)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            kind = node.annotation
            if ast.unparse(node.target) in once and node.value is not None and not ast.unparse(kind).startswith(("Final", "TypeAlias")):
                _insert(lines, (kind.end_lineno, kind.end_col_offset), "]")
                _insert(lines, (kind.lineno, kind.col_offset), "Final[")
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Name) and target.id in once and not _is_type(value):
                _insert(lines, (target.end_lineno, target.end_col_offset), f": {_final_of(value)}")
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and once.issuperset(map(ast.unparse, target.elts)):
                # What is taken apart can't be Final. The lines stay as many as they were.
                pairs = zip(target.elts, value.elts, strict=True)
                parts = [f"{ast.unparse(name)}: Final = {ast.unparse(given)}" for name, given in pairs]
                first, last = node.lineno - 1, node.end_lineno or 0
                lines[first:last] = ["; ".join(parts), *[""] * (last - first - 1)]
    future = "from __future__ import annotations"
    if lines != before:  # then it has names of its own, and begins, as each such module of ours, with this line
        lines[lines.index(future)] = f"{future}; from typing import Final"


def _write_settings(tree: ast.Module, lines: list[str]) -> None:
    """Set fields of frozen objects as any others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call) and ast.unparse(call.func) == "object.__setattr__":
            owner, name, value = call.args
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and node.lineno == node.end_lineno:
                setting = f"{ast.unparse(owner)}.{name.value} = {ast.unparse(value)}  # type: ignore[misc]"
                lines[node.lineno - 1] = lines[node.lineno - 1][: node.col_offset] + setting


def _is_type(value: ast.expr) -> bool:
    """Tell whether a type is made here, or another name for one; those with names of their own say TypeAlias."""
    return isinstance(value, ast.Subscript) or (isinstance(value, ast.Call) and ast.unparse(value.func) in _MAKE_TYPES)


def _final_of(value: ast.expr) -> str:
    """Return what says that a name is constant. A tuple whose length it knows mypyc keeps taken apart, and makes anew at each use."""
    kinds = {type(getattr(item, "value", None)).__name__ for item in value.elts} if isinstance(value, ast.Tuple) else set()
    return f"Final[tuple[{kinds.pop()}, ...]]" if kinds in ({"str"}, {"bytes"}) else "Final"


def _insert(lines: list[str], place: tuple[int | None, int | None], text: str) -> None:
    """Put text where a node begins or ends."""
    row, column = (place[0] or 0) - 1, place[1] or 0
    lines[row] = lines[row][:column] + text + lines[row][column:]


def _has(one: ast.ClassDef, name: str) -> bool:
    """Tell whether a class has a method of its own of this name."""
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in one.body)


def _decorator(one: ast.ClassDef) -> ast.Call | None:
    """Return a dataclass's decorator; raises ValueError for a dataclass whose ``__init__`` can't be written out."""
    given = [decorator for decorator in one.decorator_list if ast.unparse(decorator).startswith("dataclass")]
    if not given:
        return None
    if not isinstance(given[0], ast.Call) or any(not ast.unparse(base).startswith("Generic[") for base in one.bases):
        message = f"{one.name}: give `dataclass` its options, and no base class, or leave its module out of CORE"
        raise ValueError(message)
    return given[0]


def _fields(one: ast.ClassDef) -> list[tuple[str, ast.AnnAssign]]:
    """Return the fields of a class, by name."""
    annotated = [(node.target.id, node) for node in one.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return [(name, node) for name, node in annotated if not ast.unparse(node.annotation).startswith("ClassVar")]


def _write_init(one: ast.ClassDef, decorator: ast.Call, lines: list[str]) -> None:
    """Give a dataclass the ``__init__`` that its decorator would make."""
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in decorator.keywords}
    parameters, body = [], []
    for name, node in _fields(one):
        kind, value = ast.unparse(node.annotation), name
        given = {}
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "field":
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.value.keywords}
        elif node.value is not None:
            given = {"default": ast.unparse(node.value)}
        if given.get("init") == "False":
            value = given.get("default", f"({given.get('default_factory')})()")
        elif "default_factory" in given:
            parameters.append(f"{name}: {kind} | None = None")
            value = f"({given['default_factory']})() if {name} is None else {name}"
        else:
            parameters.append(f"{name}: {kind}" + (f" = {given['default']}" if "default" in given else ""))
        body.append(f"        self.{name} = {value}  # type: ignore[misc]")
    if _has(one, "__post_init__"):
        body.append("        self.__post_init__()")
    if not body:
        return
    star = ["*"] if options.get("kw_only") == "True" and parameters else []
    last = max(node.end_lineno or 0 for _, node in _fields(one))
    written, made = _comparing(one, options)
    lines[last:last] = ["", f"    def __init__({', '.join(['self', *star, *parameters])}) -> None:", *body, *written]
    for _, node in _fields(one):
        # mypyc looks a field's type up among the module's names, where `object` is not; it takes a union as it is.
        if ast.unparse(node.annotation) == "object":
            lines[node.lineno - 1] = lines[node.lineno - 1].replace(": object", ": object | None", 1)
    given_options = ", ".join(f"{name}={value}" for name, value in {**options, "init": "False", **made}.items())
    lines[decorator.lineno - 1 : decorator.end_lineno] = [f"@dataclass({given_options})"]


def _comparing(one: ast.ClassDef, options: Mapping[str | None, str]) -> tuple[list[str], Mapping[str | None, str]]:
    """Return what a frozen dataclass's decorator would make beside ``__init__``, and the options that keep it from doing so.

    It compiles text for each of them at each start. What is compared are tuples as Python has them, not mypyc's, in which a NaN is not
    even equal to itself; of a field that is a ``float``, and made an object anew at each look, it is not all the same.

    Raises:
        ValueError: the decorator or a field has an option that this does not know.
    """
    if unknown := {name for name in options if name in {"order", "unsafe_hash"}}:
        message = f"{one.name}: {', '.join(sorted(map(str, unknown)))} of a dataclass can't be written out; leave its module out of CORE"
        raise ValueError(message)
    kept = {name: ast.unparse(node.value) if isinstance(node.value, ast.Call) else "" for name, node in _fields(one)}
    compared = "".join(f"{{0}}.{name}, " for name, given in kept.items() if "compare=False" not in given)
    written: list[str] = []
    made: dict[str | None, str] = {}
    if options.get("frozen") != "True":
        return written, made
    if options.get("eq") != "False" and not _has(one, "__eq__") and not _has(one, "__hash__"):
        made["eq"] = "False"
        written += [
            "",
            "    def __eq__(self, other: object) -> bool:",
            f"        if type(other) is not type(self) or not isinstance(other, {one.name}):",
        ]
        written += ["            return NotImplemented", f"        ours: tuple[object, ...] = ({compared.format('self')})"]
        written += [f"        theirs: tuple[object, ...] = ({compared.format('other')})", "        return ours == theirs"]
        written += ["", "    def __hash__(self) -> int:", f"        ours: tuple[object, ...] = ({compared.format('self')})"]
        written += ["        return hash(ours)"]
    if options.get("repr") != "False" and not _has(one, "__repr__"):
        made["repr"] = "False"
        shown = ", ".join(f"{name}={{self.{name}!r}}" for name, given in kept.items() if "repr=False" not in given)
        written += ["", "    def __repr__(self) -> str:", f'        return f"{{type(self).__qualname__}}({shown})"']
    return written, made


def _write_finish(one: ast.ClassDef, lines: list[str]) -> None:
    """Let a draft make what it turns into, and leave its slots to mypyc."""
    for node in reversed(one.body):
        if isinstance(node, ast.FunctionDef) and node.name == "finish":
            made = ast.unparse(node.returns) if node.returns is not None else "None"
            fields = ", ".join(f"{name}=self.{name}" for name, _ in _fields(one))
            lines[node.body[-2].lineno - 1 : node.end_lineno] = [f"        return {made}({fields})"]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            lines[node.lineno - 1 : node.end_lineno] = []


def compile_in(folder: Path) -> None:
    """Compile the core of a copy of the package, in place. Needs mypy, setuptools and a C compiler; takes some minutes."""
    from mypyc.build import mypycify  # noqa: PLC0415 - neither is there in an environment that only packs pure wheels
    from setuptools import setup  # type: ignore[import-untyped] # noqa: PLC0415

    os.chdir(folder)
    modules = core_of(Path())
    for path in modules:
        path.write_text(native_form(path.read_text(encoding="utf-8")), encoding="utf-8")
    Path("mypy.ini").write_text(TYPES, encoding="utf-8")
    # With what gdb needs the libraries would be five times as large. Only where functions are hidden may -O2 put one into another.
    os.environ["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} -g0 -fvisibility=hidden"
    # -O2 takes a fifth longer to compile than -O1, for 2.5 % fewer instructions; -O3 twice as long.
    # All in one C file would take twice the time on one core, and 1.3 GB, for 0.3 % fewer instructions.
    extensions = mypycify(["--config-file=mypy.ini", *map(str, modules)], opt_level="2", debug_level="0", multi_file=True)
    setup(name=PACKAGE, packages=[], ext_modules=extensions, script_args=["--quiet", "build_ext", "--inplace", f"-j{os.cpu_count()}"])


if __name__ == "__main__":
    compile_in(Path(sys.argv[1]).resolve())
