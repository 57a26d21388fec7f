"""What the hook that compiles the core writes out before mypyc reads a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiled_wheel import CORE, PACKAGE, CompiledHook, core_of, native_form

ROOT = Path(__file__).resolve().parent.parent.parent

FROZEN = '''
@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A trace."""

    __test__: ClassVar = False
    name: str
    spans: Spans = ()
    labels: Labels = field(default_factory=dict)
    size: int = field(default=0, compare=False)
    note: object = None
    _seen: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Check."""
'''
WRITTEN = '''
@dataclass(frozen=True, slots=True, kw_only=True, init=False, eq=False, repr=False)
class Passage:
    """A trace."""

    __test__: ClassVar = False
    name: str
    spans: Spans = ()
    labels: Labels = field(default_factory=dict)
    size: int = field(default=0, compare=False)
    note: object | None = None
    _seen: int | None = field(default=None, init=False)

    def __init__(self, *, name: str, spans: Spans = (), labels: Labels | None = None, size: int = 0, note: object = None) -> None:
        self.name = name  # type: ignore[misc]
        self.spans = spans  # type: ignore[misc]
        self.labels = (dict)() if labels is None else labels  # type: ignore[misc]
        self.size = size  # type: ignore[misc]
        self.note = note  # type: ignore[misc]
        self._seen = None  # type: ignore[misc]
        self.__post_init__()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, Passage):
            return NotImplemented
        ours: tuple[object, ...] = (self.name, self.spans, self.labels, self.note, self._seen, )
        theirs: tuple[object, ...] = (other.name, other.spans, other.labels, other.note, other._seen, )
        return ours == theirs

    def __hash__(self) -> int:
        ours: tuple[object, ...] = (self.name, self.spans, self.labels, self.note, self._seen, )
        return hash(ours)

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}(name={self.name!r}, spans={self.spans!r}, labels={self.labels!r}, size={self.size!r}, note={self.note!r}, _seen={self._seen!r})"

    def __post_init__(self) -> None:
        """Check."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("objects of the compiled core can't be pickled or copied; install the pure form, or pass on plain values")
'''  # noqa: E501 - one line is written for each method's body
DRAFT = '''
class SpanDraft:
    """A draft."""

    __slots__ = tuple(field.name for field in fields(Span))

    name: str
    size: int

    def finish(self) -> Span:
        """Turn into a span."""
        self.__class__ = Span
        return self
'''
FINISHED = '''
from typing import TYPE_CHECKING
if TYPE_CHECKING: from mypy_extensions import mypyc_attr
@mypyc_attr(acyclic=True)
class SpanDraft:
    """A draft."""


    name: str
    size: int

    def finish(self) -> Span:
        """Turn into a span."""
        return Span(name=self.name, size=self.size)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("objects of the compiled core can't be pickled or copied; install the pure form, or pass on plain values")
'''
NAMES = """
from __future__ import annotations

from collections import namedtuple

__all__ = ["MOST"]
MOST = 3  # of them
WORDS = ("a", "b")
MIXED = ("a", 1)
TABLE: Mapping[str, int] = {
    "a": 1,
}
WIDE: tuple[
    int, ...
] = ()
LEFT, RIGHT = 1, 2
LOW, HIGH = bounds()
SEEN: Final = 4
MAX_LOOKS = 5
Pair = tuple[int, int]
Item = TypeVar("Item")
Alias: TypeAlias = "int | str"
unset: int
TWICE = 1
TWICE = 2
SHARED = 1
chain.of = 3


def shadows() -> int:
    SHARED = 2
    return SHARED
"""
CONSTANT = NAMES
for before, after in (
    ("annotations\n", "annotations; from typing import Final\n"),
    ("MOST = 3", "MOST: Final = 3"),
    ("WORDS = ", "WORDS: Final[tuple[str, ...]] = "),
    ("MIXED = ", "MIXED: Final = "),
    ("TABLE: Mapping[str, int] =", "TABLE: Final[Mapping[str, int]] ="),
    ("WIDE: tuple[\n    int, ...\n] =", "WIDE: Final[tuple[\n    int, ...\n]] ="),
    ("LEFT, RIGHT = 1, 2", "LEFT: Final = 1; RIGHT: Final = 2"),
):
    assert CONSTANT.count(before) == 1
    CONSTANT = CONSTANT.replace(before, after)
NO_PICKLE = FINISHED[FINISHED.index("\n    def __reduce__") :].lstrip("\n")


@pytest.mark.parametrize(
    ("source", "written"),
    [
        pytest.param(FROZEN, WRITTEN, id="a dataclass gets its __init__"),
        pytest.param(DRAFT, FINISHED, id="a draft makes what it turns into"),
        pytest.param(NAMES, CONSTANT, id="a name that is assigned once is constant, unless it is a type, or a bound that tests lower"),
        pytest.param("if TYPE_CHECKING:\n    import a\n", "if TYPE_CHECKING:\n    import a\n", id="a module without any of these stays"),
        pytest.param(
            "if TYPE_CHECKING:\n    import a\n\n@dataclass(slots=True)\nclass A:\n    a: int\n",
            "if True:\n    import a\n\n@dataclass(slots=True, init=False)\nclass A:\n    a: int\n\n"
            "    def __init__(self, a: int) -> None:\n        self.a = a  # type: ignore[misc]\n\n" + NO_PICKLE,
            id="types of fields are there when the class is made",
        ),
        pytest.param(
            "if TYPE_CHECKING:\n    import a\n\n    from mypy_extensions import i64\n\n@dataclass(slots=True)\nclass A:\n    pass\n",
            "if True:\n    import a\n\n    if TYPE_CHECKING: from mypy_extensions import i64\n\n"
            "@dataclass(slots=True)\nclass A:\n    pass\n\n" + NO_PICKLE,
            id="what only the compiler knows is not there when the code runs",
        ),
        pytest.param(
            "@dataclass(slots=True)\nclass A:\n    pass\n", "@dataclass(slots=True)\nclass A:\n    pass\n\n" + NO_PICKLE, id="no fields"
        ),
        pytest.param(
            "@dataclass(slots=True)\nclass Score:\n    pass\n",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING: from mypy_extensions import mypyc_attr\n@mypyc_attr(acyclic=True)\n"
            "@dataclass(slots=True)\nclass Score:\n    pass\n\n" + NO_PICKLE,
            id="what is in no cycle is kept from the garbage collector",
        ),
        pytest.param(
            'def f(a: A) -> None:\n    if a:\n        object.__setattr__(a, "b", a.c + 1)  # A is frozen\n',
            "def f(a: A) -> None:\n    if a:\n        a.b = a.c + 1  # type: ignore[misc]\n",
            id="fields of frozen objects are set as any others",
        ),
        pytest.param("class AError(ValueError):\n    pass\n", "class AError(ValueError):\n    pass\n", id="exceptions are pickled"),
    ],
)
def test_what_mypyc_can_not_do_is_written_out(source: str, written: str) -> None:
    assert native_form(source) == written


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("@dataclass\nclass A:\n    a: int\n", id="no options"),
        pytest.param("@dataclass(slots=True)\nclass A(B):\n    a: int\n", id="inherited fields"),
        pytest.param("@dataclass(frozen=True, order=True)\nclass A:\n    a: int\n", id="an order"),
    ],
)
def test_what_can_not_be_written_out_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"A: .*leave its module out of CORE"):
        native_form(source)


def test_without_a_compiler_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    hook = CompiledHook(str(ROOT), {}, None, None, str(ROOT), "wheel")  # type: ignore[arg-type] # neither is looked at
    with pytest.raises(RuntimeError, match=r"no C compiler named no-such-compiler, .* or leave the variable out for the pure form"):
        hook.initialize("standard", {})


@pytest.mark.parametrize("name", CORE)
def test_all_that_is_compiled_is_there(name: str) -> None:
    assert (ROOT / PACKAGE / name).exists()


def test_every_module_of_the_core_is_still_python_when_it_is_written_out() -> None:
    modules = core_of(ROOT)
    assert len(modules) > 100
    for path in modules:
        compile(native_form(path.read_text(encoding="utf-8")), path, "exec")
