"""Writes the dashboards that Grafana is provisioned with: ``make dashboards``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from boards.failures import FAILURES
from boards.pipeline_health import PIPELINE_HEALTH
from boards.verdicts import VERDICTS

BOARDS: Final = (VERDICTS, FAILURES, PIPELINE_HEALTH)
FOLDER: Final = Path(__file__).resolve().parent.parent / "dashboards"


def main() -> None:
    """Write each dashboard to its file."""
    for board in BOARDS:
        file = FOLDER / f"{board.name}.json"
        file.write_text(board.to_json(), encoding="utf-8")
        sys.stdout.write(f"wrote {file.name}\n")


if __name__ == "__main__":
    main()
