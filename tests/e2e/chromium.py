"""Finds a Chromium for the end-to-end tests, and installs one where that can be done.

``python -m tests.e2e.chromium`` (`make browser`) does nothing if there is one, installs Debian's package as root, and else says what to do.
Playwright's own browsers are downloads from elsewhere, so they are not used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
HELP: Final = "Chromium or Chrome: `make browser` installs it as root where there is apt-get"

_INSTALL: Final = (
    ("apt-get", "update", "--quiet=2"),
    ("apt-get", "install", "--quiet=2", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"),
)


def found() -> str | None:
    """Return the path of a browser; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


def main(*, run: Callable[[Sequence[str]], int] = subprocess.call) -> int:
    """Install a browser unless there is one; 0 if there is one then, 2 if not."""
    if found() is not None:
        return 0
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.stderr.write(f"make browser: none of {', '.join(NAMES)} is here; install one (Debian: apt-get install chromium)\n")
        return 2
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    for command in _INSTALL:
        if run(command):
            sys.stderr.write(f"make browser: `{' '.join(command)}` failed; install Chromium or Chrome in another way\n")
            return 2
    return 0 if found() is not None else 2


if __name__ == "__main__":
    sys.exit(main())
