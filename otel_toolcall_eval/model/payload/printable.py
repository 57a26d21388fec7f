"""Makes recorded text safe to show on a terminal."""

from __future__ import annotations

import re
from typing import Final

# C0 and C1 controls, among them line breaks and the escape that begins a terminal's commands; marks that turn the direction of text;
# lone surrogates, which no terminal can be sent.
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return text on one line in which controls are spelled out, so that what an agent recorded can't forge lines or move the cursor."""
    return _UNSAFE.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode()
