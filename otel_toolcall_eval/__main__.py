"""Reads the command line, runs a command, turns errors into exit codes. The only place that ends the process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.parser import PROGRAM, run
from otel_toolcall_eval.errors import ToolCallEvalError

if TYPE_CHECKING:
    from collections.abc import Sequence

UNUSABLE = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 passed, 1 failed, 2 unusable input, 130 interrupted."""
    try:
        return run(sys.argv[1:] if arguments is None else arguments)
    except ToolCallEvalError as error:
        for problem in error.problems:
            print(f"{PROGRAM}: {problem}", file=sys.stderr)  # noqa: T201 - the command line's own output
        return UNUSABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `head` does; Python would complain again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
