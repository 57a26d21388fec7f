from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.exporters.metrics.count_sources import STATM, ProcessMemory

if TYPE_CHECKING:
    from pathlib import Path

KEY = ("process.memory.usage", ())


@pytest.mark.skipif(not STATM.exists(), reason="this system has no /proc")
def test_memory_is_this_processs_in_bytes() -> None:
    before = ProcessMemory().counts()[KEY]
    block = bytearray(b"x" * (64 << 20))
    after = ProcessMemory().counts()[KEY]
    assert before > 10 << 20
    assert after - before > len(block) // 2


@pytest.mark.parametrize("text", [None, "", "12", "a b c"])
def test_where_the_system_does_not_tell_nothing_is_shown(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "statm"
    if text is not None:
        file.write_text(text, encoding="ascii")
    assert ProcessMemory(file).counts() == {}
