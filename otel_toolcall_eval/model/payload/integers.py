"""Reads decimal integers of any size exactly, within a bound on their length."""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 100_000
"""Longest integer that is read: turning digits into a number costs more than linear time. A full one takes about 10 ms."""

# Python refuses int(text) beyond sys.set_int_max_str_digits, a process-wide setting that is not ours to change: 4300 digits
# unless set, and never below 640.
_SAFE_DIGITS: Final = 600


def read_integer(digits: str) -> int:
    """Return the exact value of decimal digits, with or without a sign.

    Args:
        digits: ``[+-]?[0-9]+``, as already checked by a reader's grammar.

    Raises:
        ValueError: there are more than MAX_DIGITS.

    Cost: that of ``int`` up to 600 digits; above, about n to the power of 1.6.
    """
    if len(digits) <= _SAFE_DIGITS:
        return int(digits)
    if len(digits) > MAX_DIGITS:
        raise ValueError
    sign = digits[0] if digits[0] in "+-" else ""
    magnitude = _magnitude(digits[len(sign) :])
    return -magnitude if sign == "-" else magnitude


def _magnitude(digits: str) -> int:
    """Return the value of unsigned digits, by halves: eight levels at the most."""
    if len(digits) <= _SAFE_DIGITS:
        return int(digits)
    low = len(digits) // 2
    shift: int = 10**low
    return _magnitude(digits[:-low]) * shift + _magnitude(digits[-low:])
