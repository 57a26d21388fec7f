"""What is written out for mypyc does what it stands for."""

from __future__ import annotations

from typing import Any

from compiled_wheel import native_form

FROZEN = """
from __future__ import annotations
from dataclasses import dataclass, field

@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    number: float
    text: str = "a"
    aside: int = field(default=0, compare=False)
    hidden: int = field(default=0, repr=False)

@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class One:
    number: float

class Narrow(Frozen):
    __slots__ = ()

@dataclass(slots=True, kw_only=True)
class Thawed:
    number: float
"""


def test_what_is_written_out_compares_and_shows_itself_as_what_dataclass_makes() -> None:
    plain: dict[str, Any] = {"__name__": "builtins"}
    native: dict[str, Any] = {"__name__": "builtins"}
    exec(FROZEN, plain)  # noqa: S102 - both are ours
    exec(native_form(FROZEN), native)  # noqa: S102

    def made(module: dict[str, Any], kind: str = "Frozen", **fields: object) -> Any:  # noqa: ANN401 - of either module
        one = object.__new__(module[kind])  # only what is compiled may set its fields in __init__
        for name, value in {"text": "a", "aside": 0, "hidden": 0, **fields}.items():
            object.__setattr__(one, name, value)
        return one

    nan = float("nan")
    for module in (plain, native):
        one = made(module, number=nan)
        assert one == made(module, number=nan, aside=1)
        assert one != made(module, number=float("nan"))
        assert one != made(module, number=nan, hidden=1)
        assert one != (nan, "a", 0)
        assert hash(one) == hash((nan, "a", 0))
        assert repr(one) == "Frozen(number=nan, text='a', aside=0)"
        assert one != made(module, "Narrow", number=nan)
        assert made(module, "Narrow", number=nan) == made(module, "Narrow", number=nan)
        assert repr(made(module, "Narrow", number=1.0)) == "Narrow(number=1.0, text='a', aside=0)"
    assert "__eq__" not in vars(native["One"])
    assert "__repr__" in vars(native["One"])
    options = {name: native[name].__dataclass_params__ for name in ("Frozen", "One", "Thawed")}
    assert [(name, found.eq, found.repr) for name, found in options.items()] == [
        ("Frozen", False, False),
        ("One", False, False),
        ("Thawed", True, True),
    ]
