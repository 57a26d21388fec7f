"""Reads the command line, runs a command, turns errors into exit codes. The only place that ends the process."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.parser import PROGRAM, run
from otel_toolcall_eval.model.errors import ToolCallEvalError

if TYPE_CHECKING:
    from collections.abc import Sequence

UNUSABLE = 2
OUR_FAULT = 3
INTERRUPTED = 130
CLOSED_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Returns:
        0 passed, 1 failed, 2 unusable input, 3 a fault of ours, 130 interrupted, 141 nobody reads the output. A run that came to
        no end must never look like one that passed, nor like one that failed.
    """
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
        return CLOSED_PIPE
    except OSError as error:
        print(f"{PROGRAM}: {error.filename or 'output'}: {error.strerror}; check space and permissions", file=sys.stderr)  # noqa: T201
        return UNUSABLE
    except Exception:  # noqa: BLE001 - the last stop
        traceback.print_exc()
        print(f"{PROGRAM}: this is a fault of ours; please report the lines above", file=sys.stderr)  # noqa: T201
        return OUR_FAULT


if __name__ == "__main__":
    sys.exit(main())
