"""Measures the compiled core: builds it in a copy of the checkout, and runs the benchmarks there. ``make bench COMPILED=1``."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent.parent
COPY: Final = ROOT / ".build" / "compiled"
HOOK: Final = ROOT / "config" / "wheel" / "compiled_wheel.py"
_STAMP: Final = COPY / "sources.sha256"
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__")


def main() -> int:
    """Build what is not built yet, and measure what the command line names."""
    sources = _digest()
    if not _STAMP.exists() or _STAMP.read_text(encoding="ascii") != sources:
        sys.stderr.write("Compiling the core, some minutes ...\n")
        shutil.rmtree(COPY, ignore_errors=True)
        shutil.copytree(ROOT / "otel_toolcall_eval", COPY / "otel_toolcall_eval", ignore=_LEFT_OUT)
        subprocess.run([sys.executable, HOOK, COPY], check=True)
        (COPY / ".build").symlink_to(ROOT / ".build")  # the Collector, the reference; figures go there, too
        _STAMP.write_text(sources, encoding="ascii")
    for folder in ("tests", "config"):
        shutil.rmtree(COPY / folder, ignore_errors=True)
        shutil.copytree(ROOT / folder, COPY / folder, ignore=_LEFT_OUT)
    shutil.copy(ROOT / "pyproject.toml", COPY)
    return subprocess.run([sys.executable, "-m", "tests.bench", *sys.argv[1:]], cwd=COPY, check=False).returncode


def _digest() -> str:
    """Return what tells these sources from all others."""
    digest = hashlib.sha256(sys.version.encode())
    for path in _sources():
        digest.update(b"\0".join((str(path.relative_to(ROOT)).encode(), path.read_bytes())))
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    yield HOOK
    yield from sorted(path for path in (ROOT / "otel_toolcall_eval").rglob("*") if path.is_file() and "__pycache__" not in path.parts)


if __name__ == "__main__":
    sys.exit(main())
