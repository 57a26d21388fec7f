"""The decorator of values that are made for each span or call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

if TYPE_CHECKING:
    T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value_class(cls: type[T]) -> type[T]:
    """Make a slotted, keyword-only dataclass, which type checkers hold frozen.

    It compares and hashes as a frozen one does. At run time nothing keeps anyone from assigning: ``frozen=True`` would set each field
    through a call, which triples the time to construct a span, and constructing is a large part of what decoding one takes.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
