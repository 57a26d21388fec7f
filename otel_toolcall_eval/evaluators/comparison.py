"""What a recorded output answers to, and what an expected one asks for.

Each side is turned into a few tokens; an output matches an expectation exactly if they have one in common. So holding n outputs
against m expectations takes n + m steps. Golden cases: ``output-*``.

- Text: a recorded output offers its text, letter by letter, and the text of its content; null offers ``""``. Given text asks
  for itself.
- Value: a recorded output offers what its text spells, unless that is text again, its content unless that is text, and the object
  or list that a content's text spells. A given value asks for itself; given text for what it spells, unless that is text again.
- Nothing: offered if no output was recorded and none was to be; ``""`` and null ask for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.payload.equality import identity, same
from otel_toolcall_eval.model.payload.text import UnreadableTextError, read_text
from otel_toolcall_eval.model.tool_call import ContentState

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_toolcall_eval.model.tool_call import Content, Json

CONTENT: Final = "content"
"""The key of the guides' content wrapper, ``{"content": ...}``: an expectation may equal its content or the whole object."""

NOTHING: Final = None
"""The token of an output that was not recorded because there was none. Text tokens are text, value tokens tuples of one."""

_QUOTED: Final = re.compile(r"""\s*[uUrR]?["']""")
_NOT_FINITE: Final = {"nan": ("NaN", "nan"), "inf": ("inf",), "-inf": ("-inf",)}  # spellings that can't be read back as the value


def asked(expected: Json) -> list[Hashable]:
    """Return the tokens of an expected output."""
    if expected is None:
        return [(identity(expected),), NOTHING]
    if not isinstance(expected, str):
        return [(identity(expected),)]
    if not expected:
        return [expected, NOTHING]
    value = spelled(expected)
    return [expected] if isinstance(value, str) else [expected, (identity(value),)]


def plainly_answers(expected: Json, wanted: Json, content: Content) -> bool:
    """Tell at a glance that an output has a token that is asked for. False leaves it open: only the tokens tell.

    Args:
        expected: the expected output.
        wanted: what it spells if it is text that spells anything; else the same.
        content: what was recorded.
    """
    if content.state is not ContentState.FULL or content.nothing:
        return False
    if isinstance(expected, str) and expected == content.text:
        return True
    value = content.value
    if isinstance(value, str):
        return False
    if isinstance(expected, str) and isinstance(wanted, str):
        wanted = expected  # text that spells text, such as a quoted word, asks for itself alone
    if same(wanted, value):
        return True
    return isinstance(value, dict) and CONTENT in value and _plainly_is(expected, wanted, value[CONTENT])


def _plainly_is(expected: Json, wanted: Json, content: Json) -> bool:
    """Tell at a glance that the content of a wrapper has a token that is asked for; see ``plainly_answers``."""
    if not isinstance(content, str):
        return same(wanted, content)
    return content == expected or (is_container(wanted) and same(wanted, spelled(content)))


def offered(content: Content, *, wrapped: bool = True) -> list[Hashable]:
    """Return the tokens of an output whose content is known.

    Args:
        content: what was recorded.
        wrapped: False leaves out the wrapper as a whole, for criteria that expect none.
    """
    if content.nothing:
        return [NOTHING]
    text, value = content.text, content.value
    tokens: list[Hashable] = [] if text is None else [text]
    if content.state is ContentState.UNPARSED:
        return tokens
    if isinstance(value, str):
        if is_unwrapped(content):
            tokens += offered_by(value)
        elif value == text:
            inner = spelled(text)  # a dialect may leave numbers and such as text; here they count as what they spell
            if not isinstance(inner, str):
                tokens.append((identity(inner),))
    elif (isinstance(value, dict) or isinstance(value, Mapping)) and CONTENT in value:  # noqa: SIM101 - made anew each time, a union costs more
        tokens += offered_by(value[CONTENT])
        if wrapped:
            tokens.append((identity(value),))
    else:
        tokens += offered_by(value)
    return tokens


def offered_by(value: Json) -> list[Hashable]:
    """Return the tokens of a value that stands for itself, such as the content of the guides' wrapper."""
    if isinstance(value, str):
        inner = spelled(value)
        return [value, (identity(inner),)] if is_container(inner) else [value]
    if value is None:
        return [(identity(value),), ""]
    if isinstance(value, float) and not math.isfinite(value):
        return [(identity(value),), *_NOT_FINITE[repr(value)]]
    return [(identity(value),)]


def is_unwrapped(content: Content) -> bool:
    """Tell whether a text value was taken out of something else, rather than being the recorded text or what that quotes.

    A recorded ``"hello"`` with its quotes equals only an expected ``"hello"`` with quotes (``output-json-string-quoted``),
    while the ``hello`` that a dialect takes out of ``[{"type": "text", "text": "hello"}]`` stands for itself.
    """
    return content.text is None or (content.value != content.text and _QUOTED.match(content.text) is None)


def spelled(text: str) -> Json:
    """Return the value that text spells, or the text if it spells none."""
    try:
        return read_text(text)
    except UnreadableTextError:
        return text


def compared(expected: Json, content: Content) -> tuple[Json, Json]:
    """Return what to show for an expectation and an output whose content is known: the forms that come nearest to each other.

    Text that spells an object or a list is shown as that; a content wrapper is shown only if one was expected.
    """
    wanted = spelled(expected) if isinstance(expected, str) else expected
    value = content.text if content.state is ContentState.UNPARSED else content.value
    if isinstance(value, str) and content.text is not None and not is_unwrapped(content):
        value = content.text
        inner = spelled(value)
        return (expected, value) if isinstance(expected, str) and not is_container(inner) else (wanted, inner)
    if isinstance(value, Mapping) and CONTENT in value and not (isinstance(wanted, Mapping) and CONTENT in wanted):
        value = value[CONTENT]
    if isinstance(value, str):
        inner = spelled(value)
        return (wanted, inner) if is_container(inner) else (expected, value)
    return wanted, value


def is_container(value: Json) -> bool:
    """Tell whether a value is an object or a list."""
    return isinstance(value, dict) or isinstance(value, (list, tuple, Mapping))  # noqa: SIM101 - as in ``offered``
