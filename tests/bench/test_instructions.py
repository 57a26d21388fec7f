"""Holds how instructions are counted: that each falls into its section, and bears a name that can be read."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.bench import bench_instructions, callgrind, counted
from tests.bench.callgrind import INTERPRETER, Costs
from tests.bench.counted import COMPILED, JUDGE, PARSE, SERVICES, SETS, SIZES, STAGES, TRACES
from tests.bench.servers import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FILE = """\
# callgrind format
version: 1
part: 2
desc: Trigger: --dump-before=ctermid
positions: line
events: Ir
summary: 1170

ob=(1) /usr/lib/python3.11/core__mypyc.so
fl=(1) core.c
fn=(1) CPyDef_looks___Looks____look
0 100
cob=(2) /usr/lib/libpython3.11.so
cfi=(2) dict.c
cfn=(2) _Py_dict_lookup
calls=4 0
0 60
+0 5
cfn=(3) CPyDef_looks___Looks____look.cold
calls=1 0
0 7

fn=(3)
* 7

ob=(2)
fl=(2)
fn=(2)
0 58
fi=(3) dict.h
-1 2

fn=(4) _PyEval_EvalFrameDefault'2
0 900
cfn=(2)
calls=2 0
0 40

ob=(3) /usr/lib/libcrypto.so.3
fl=(3)
fn=(5) 0x0000000000002510
0 50
fn=(6) 0x0000000000002610
0 48

totals: 1170
"""


def test_each_function_has_what_it_took_itself_and_its_calls_what_came_of_them() -> None:
    costs = callgrind.read(FILE.splitlines(keepends=True))
    assert costs.own == {"looks.Looks._look": 112, "_Py_dict_lookup": 60, INTERPRETER: 900, "libcrypto.so.3, no names": 98}
    assert costs.calls == {
        ("looks.Looks._look", "_Py_dict_lookup"): 60,
        ("looks.Looks._look", "looks.Looks._look"): 7,
        (INTERPRETER, "_Py_dict_lookup"): 40,
    }


def test_a_file_in_another_form_is_not_misread() -> None:
    with pytest.raises(ValueError, match="counted 1,171 instructions, and 1,170 were read"):
        callgrind.read(FILE.replace("totals: 1170", "totals: 1171").splitlines(keepends=True))


def test_what_c_code_took_falls_on_those_who_called_it_as_much_as_they_did() -> None:
    costs = callgrind.read(FILE.splitlines(keepends=True))
    assert costs.charged(callgrind.is_of_mypyc) == {"looks.Looks._look": 112 + 36, INTERPRETER: 900 + 24, "libcrypto.so.3, no names": 98}


def test_what_helpers_of_helpers_took_reaches_the_function_that_needs_them() -> None:
    costs = Costs()
    for name, own in {"a.f": 5, "_call": 10, "_alloc": 20, "_grow": 40}.items():
        costs.add(Costs(Counter({name: own})))
    for pair in (("a.f", "_call"), ("_call", "_alloc"), ("_alloc", "_grow"), ("_grow", "_alloc")):
        costs.add(Costs(calls=Counter({pair: 30})))
    borne = costs.charged(callgrind.is_of_mypyc)
    assert borne.keys() == {"a.f"}
    assert borne.total() == pytest.approx(75, abs=1)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param("CPyDef_wire___limits___too_many", "wire.limits.too_many", id="function"),
        pytest.param("CPyDef_agents___Agents____path", "agents.Agents._path", id="method"),
        pytest.param("CPyDef_agents___Agents_____init__", "agents.Agents.__init__", id="dunder"),
        pytest.param("CPyPy_wire___limits___too_many", "wire.limits.too_many", id="called from Python"),
        pytest.param("CPyDef_any_value___text_of.part.0.cold", "any_value.text_of", id="part"),
        pytest.param("CPyDef_a___b___3_c", "a.b___c", id="three underscores"),
        pytest.param("CPyDef_args____equal'2", "args._equal", id="recursion"),
        pytest.param("CPyDict_GetItem", "CPyDict_GetItem", id="mypyc's runtime"),
        pytest.param("dict_merge.isra.0", "dict_merge", id="C"),
        pytest.param("0x0000000000002510", "libcrypto.so.3, no names", id="nameless"),
    ],
)
def test_names_are_told_as_in_python(function: str, expected: str) -> None:
    assert callgrind.readable(function, "/usr/lib/libcrypto.so.3") == expected


@pytest.mark.skipif(not callgrind.is_there(), reason="no valgrind")
def test_a_section_has_what_was_done_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    lines = ["from tests.bench.callgrind import Sections", "sections = Sections()", "for _ in range(2):"]
    lines += [f"    sections.begin({name!r}); [str(n) for n in range(1000, {1000 + n})]" for name, n in (("a", 100), ("", 900), ("b", 400))]
    (tmp_path / "tiny.py").write_text("\n".join([*lines, "sections.end(core='none')"]), encoding="utf-8")
    found, said = callgrind.count("tiny", cwd=tmp_path)
    assert (set(found), said["core"]) == ({"a", "b"}, "none")
    assert found["b"].own.total() == pytest.approx(4 * found["a"].own.total(), rel=0.2)


def test_all_sections_that_are_told_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(counted, "collect_garbage_seldom", lambda: None)
    monkeypatch.setattr(counted, "PASSES", 1)
    monkeypatch.setattr(counted, "WARM", 1)
    counted.main()
    said = json.loads(capsys.readouterr().out)
    expected = {f"{kind} {part}" for kind in SERVICES for part in (*STAGES, PARSE)} | {
        f"{n} {part}" for n in SIZES for part in (JUDGE, PARSE)
    }
    assert set(said["sections"]) == expected | {""}
    assert said["core"] in {COMPILED, "interpreted"}


@pytest.mark.parametrize(("core", "lists"), [(COMPILED, 2), ("interpreted", 1)])
def test_stages_sets_and_the_costliest_functions_are_told_for_one_trace_and_one_set(core: str, lists: int) -> None:
    found = {f"{kind} {stage}": Costs(Counter({"a.f": 3_000 * TRACES, "_free": 1_000 * TRACES})) for kind in SERVICES for stage in STAGES}
    found |= {f"{kind} {PARSE}": Costs(Counter({"_parse": 2_000 * TRACES})) for kind in SERVICES}
    found |= {f"{size} {part}": Costs(Counter({"a.f": size * 1_000 * SETS})) for size in SIZES for part in (JUDGE, PARSE)}
    results = list(bench_instructions.told(found, core=core))
    told = {(result.name, result.load): result.ours for result in results}
    stages = len(STAGES)
    assert (told["bound trace", STAGES[0]], told["unbound trace", "the whole way"]) == (4.0, 4.0 * stages)
    assert [told["verdict set", f"{size} calls, 4 evaluators"] for size in SIZES] == [float(size) for size in SIZES]
    assert (told["itself, 1", "a.f"], told["itself, 2", "_free"]) == (3.0 * stages, 1.0 * stages)
    assert sum(name.endswith(", 1") for name, _ in told) == lists
    assert next(result.ratio for result in results if result.load == STAGES[0]) == 2.0


def test_without_valgrind_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    [result] = bench_instructions.results()
    assert (result.ours, result.all_reached) == (None, None)
    assert "valgrind is not installed" in result.yardstick
