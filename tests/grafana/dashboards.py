"""Dashboards as Grafana reads them: the committed files, taken apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Json = Mapping[str, Any]

FOLDER = Path(__file__).resolve().parent.parent.parent / "config" / "grafana" / "dashboards"
FILES = sorted(FOLDER.glob("*.json"))


def load(file: Path) -> Json:
    content: Json = json.loads(file.read_text(encoding="utf-8"))
    return content


def rows(board: Json) -> Sequence[Json]:
    return [panel for panel in board["panels"] if panel["type"] == "row"]


def panels(board: Json) -> Iterator[Json]:
    """Yield all panels but the headings, those of folded rows included."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", ())
        else:
            yield panel


def values(content: object) -> Iterator[tuple[str, object]]:
    """Yield every key with its value, at any depth."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield key, value
            yield from values(value)
    elif isinstance(content, list):
        for item in content:
            yield from values(item)
