from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.integers import MAX_DIGITS, read_integer


@given(st.integers())
def test_short_integers_read_as_python_reads_them(number: int) -> None:
    assert read_integer(str(number)) == number


@pytest.mark.parametrize(
    "length",
    [
        pytest.param(600, id="last-short"),
        pytest.param(601, id="first-in-halves"),
        pytest.param(4_301, id="beyond-python's-limit"),
        pytest.param(MAX_DIGITS - 1, id="with-sign-at-the-bound"),
    ],
)
@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_long_integers_are_exact(length: int, sign: str) -> None:
    number = 10 ** (length - 1) + 10 ** (length // 3) + 7
    digits = "1" + "0" * (length - 1 - length // 3 - 1) + "1" + "0" * (length // 3 - 1) + "7"
    assert len(digits) == length
    assert read_integer(sign + digits) == (-number if sign == "-" else number)


def test_integers_beyond_the_bound_are_refused() -> None:
    assert read_integer("9" * MAX_DIGITS) == 10**MAX_DIGITS - 1
    with pytest.raises(ValueError, match=r"^$"):
        read_integer("9" * (MAX_DIGITS + 1))
