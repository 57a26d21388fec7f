"""The settings of redaction: which rules hold for what explanations show."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, ValidationInfo

from otel_toolcall_eval.settings.config_model import ConfigModel
from otel_toolcall_eval.settings.diagnostics import quoted
from otel_toolcall_eval.settings.patterns import LinearPattern, compile_pattern
from otel_toolcall_eval.settings.types import FROM_TEXT, Flag, SchemaOf, complaint, wrong_kind
from otel_toolcall_eval.values.redaction import words_of

_KEYS_FIX = "list keys, as in [customer_number, iban]"
_PATTERNS_FIX = "list regular expressions that RE2 takes, as in ['[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}']"
_SCHEMA = SchemaOf({"type": "array", "items": {"type": "string", "minLength": 1}})


def _keys(value: object, info: ValidationInfo) -> tuple[str, ...]:
    if info.context == FROM_TEXT and isinstance(value, str):
        value = [key.strip() for key in value.split(",")]
    found = _texts(value, fix=_KEYS_FIX)
    for key in found:
        if not words_of(key):
            raise complaint(what=f"{quoted(key)} has neither letters nor digits", fix=_KEYS_FIX)
    return found


def _patterns(value: object, info: ValidationInfo) -> tuple[LinearPattern, ...]:
    if info.context == FROM_TEXT and isinstance(value, str):
        value = [value]  # commas are part of patterns; several are one with | between them
    return tuple(_pattern(text) for text in _texts(value, fix=_PATTERNS_FIX))


def _pattern(text: str) -> LinearPattern:
    try:
        pattern = compile_pattern(text)
    except ValueError as error:
        missing = isinstance(error.__cause__, ImportError)
        fix = "pip install 'otel-toolcall-eval[patterns]'" if missing else _PATTERNS_FIX
        raise complaint(what=f"{quoted(text)} can't be used: {error}", fix=fix) from error
    if pattern.search("") is not None:
        raise complaint(what=f"{quoted(text)} holds for the empty text, thus everywhere", fix="let it ask for one character at least")
    return pattern


def _texts(value: object, *, fix: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise wrong_kind(value, "a list", fix)
    for member in value:
        if not isinstance(member, str):
            raise wrong_kind(member, "text", fix)
    return tuple(value)


class RedactModel(ConfigModel):
    """What is taken out of all that explanations show."""

    keys: Annotated[tuple[str, ...], PlainValidator(_keys), _SCHEMA] | None = Field(
        default=None, description="Keys whose values are taken out, beside those that are built in."
    )
    patterns: Annotated[tuple[LinearPattern, ...], PlainValidator(_patterns), _SCHEMA] | None = Field(
        default=None, description="Regular expressions (RE2) for what is taken out wherever it stands, likewise."
    )
    defaults: Flag | None = Field(default=None, description="Whether the rules that are built in hold.")
