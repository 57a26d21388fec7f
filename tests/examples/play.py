"""Plays one example as a user does, then lets its agent misbehave; prints what it showed, its verdicts, and what its tools noted.

Run by the Python of an environment that has the example's framework, and neither pytest nor our tests: ``python play.py EXAMPLE SCRIPT``.
"""

from __future__ import annotations

import io
import json
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def _verdict(result: Any) -> dict[str, object]:  # noqa: ANN401 - this file is run where the package is installed, and types are not looked at
    return {"label": result.label, "score": result.score, "explanation": result.explanation, "details": result.details.details()}


def main() -> None:
    """Play."""
    path, script = Path(sys.argv[1]), [tuple(step) for step in json.loads(sys.argv[2])]
    sys.path.insert(0, str(path.parent))
    shown = io.StringIO()
    with redirect_stdout(shown):
        example = runpy.run_path(str(path), run_name="__main__")
    calls = sys.modules["order_desk"].calls
    good = list(calls)
    calls.clear()
    verdicts = {name: _verdict(result) for name, result in example["run"](script).items()}
    print(json.dumps({"shown": shown.getvalue(), "good": good, "verdicts": verdicts, "calls": calls}))  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
