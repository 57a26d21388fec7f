"""Recording and alert rules as Prometheus reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).resolve().parent.parent.parent / "config" / "prometheus"
FILES = (FOLDER / "recording.yaml", FOLDER / "alerts.yaml")
UNIT_TESTS = tuple(sorted((FOLDER / "tests").glob("*.yaml")))


def groups(file: Path) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = YAML(typ="safe").load(file.read_text(encoding="utf-8"))["groups"]
    return found


def rules(file: Path) -> Sequence[Mapping[str, Any]]:
    return [rule for group in groups(file) for rule in group["rules"]]
