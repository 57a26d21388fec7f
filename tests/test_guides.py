"""Every Python block of the guides that builds an evaluator runs with only its imports changed, and gives the stated score."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval import EvaluationResult

if TYPE_CHECKING:
    from collections.abc import Iterator

GUIDES = Path(__file__).parent / "golden" / "guides"
BLOCK = re.compile(r"^### (?P<title>.+?)$|^```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)
FOREIGN_IMPORT = re.compile(r"^from uipath\.\S+ import (.+)$", re.MULTILINE)
STATED_SCORE = re.compile(r'print\(f"Score: \{result\.score\}"\)\s*# (\d+(?:\.\d+)?)')
STATED_LCS = re.compile(r'print\(f"LCS: \{result\.details\.lcs\}"\)\s*# (\[.*\])')


def _blocks() -> Iterator[object]:
    for guide in sorted(GUIDES.glob("tool_call_*.md")):
        title, imports = "", ""
        for found in BLOCK.finditer(guide.read_text(encoding="utf-8")):
            title = found["title"] or title
            code = found["code"]
            if code is None or "Evaluator(" not in code:
                continue
            ours = FOREIGN_IMPORT.findall(code)
            # the guides give the imports in their first block and leave them out of the later ones
            imports = "\n".join(f"from otel_toolcall_eval import {names}" for names in ours) or imports
            yield pytest.param(FOREIGN_IMPORT.sub("", code), imports, id=f"{guide.stem}-{title}".replace(" ", "-").lower())


BLOCKS = list(_blocks())


def _run(code: str, imports: str) -> EvaluationResult:
    program = compile(f"{imports}\n{code}", "<guide>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, object] = {}
    outcome = eval(program, names)  # noqa: S307 - the guides' own code is what is tested
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)
    result = names["result"]
    assert isinstance(result, EvaluationResult)
    return result


def test_all_blocks_are_found() -> None:
    assert len(BLOCKS) == 24


@pytest.mark.parametrize(("code", "imports"), BLOCKS)
def test_block_gives_the_score_that_the_guide_states(code: str, imports: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = _run(code, imports)
    stated = STATED_SCORE.search(code)
    assert stated is not None
    digits = stated[1]
    expected = 2 / 3 if digits == "0.66" else float(digits)  # the guides cut 2/3 to 0.66; we never round
    assert result.score == pytest.approx(expected, abs=1e-9)
    assert f"Score: {result.score}" in capsys.readouterr().out
    lcs = STATED_LCS.search(code)
    if lcs:
        assert list(result.details.lcs) == ast.literal_eval(lcs[1])  # type: ignore[attr-defined]
