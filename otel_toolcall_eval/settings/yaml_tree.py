"""Turns YAML text into plain values and line numbers.

YAML 1.2's core schema, so ``on``, ``no``, ``1:30`` and dates are text. Values are built here from the parsed nodes, not by
the library's constructors: no tag can make anything but text, numbers, booleans, null, lists and objects; keys are text and stand once; and
every value has its line. Aliases work for whole values; merge keys (``<<``) left YAML with version 1.2 and are refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from otel_toolcall_eval.model.payload.integers import read_integer
from otel_toolcall_eval.settings.diagnostics import SourceLocation, quoted
from otel_toolcall_eval.settings.plain_values import MAX_DEPTH, MAX_VALUES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.settings.diagnostics import Diagnostics, Step

_Path: TypeAlias = "tuple[Step, ...]"

_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_WITH_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}

_TAG_PREFIX = "tag:yaml.org,2002:"
_TEXT_TAG = f"{_TAG_PREFIX}str"
# What the library's resolver may say of a plain scalar. It knows more types than the core schema, so we look again.
_RESOLVED_TAGS = frozenset(_TAG_PREFIX + kind for kind in ("bool", "int", "float", "null", "timestamp", "value", "merge"))
# What the library quotes out of the file, but for single characters and words of its own, as in '<block end>': it may be users' data.
_QUOTED = re.compile(r"'[^'<][^']+'")
_OPERATORS = frozenset({"=", "==", "!=", ">", "<", ">=", "<="})


class _StopError(Exception):
    """Nothing more can be read; what is wrong has been reported."""


def parse_yaml(text: str, place: SourceLocation, diagnostics: Diagnostics) -> tuple[object, Mapping[_Path, int]]:
    """Return the value of the one document in ``text``, and the line, from 1, of each path in it.

    A document without content is None. What is wrong goes to ``diagnostics``; the value is then not to
    be used. Cost: about 7 microseconds for each byte; thousands of brackets without an end cost up to 6 s, once, whatever their number,
    since the library looks 1,024 characters ahead through all of them.
    """
    yaml = YAML(typ="safe", pure=True)  # the C parser reads YAML 1.1, and is not installed everywhere
    yaml.composer.warn_double_anchors = False  # an anchor may be set anew; that is no reason for a Python warning
    tree = _Tree(place, diagnostics)
    try:
        node = yaml.compose(text)
        if node is None:
            return None, {}
        return tree.value(node, ()), tree.lines
    except MarkedYAMLError as error:
        _report_syntax(error, place, diagnostics)
    except YAMLError:
        diagnostics.problem(place, "not valid YAML: a character that YAML does not allow", "remove control characters")
    except RecursionError:
        diagnostics.problem(place, f"nested more than {MAX_DEPTH} deep", "flatten it")
    except _StopError:
        pass
    return None, {}


def _report_syntax(error: MarkedYAMLError, place: SourceLocation, diagnostics: Diagnostics) -> None:
    mark = error.problem_mark or error.context_mark
    where = place if mark is None else SourceLocation(origin=f"{place.origin}:{mark.line + 1}")
    column = "" if mark is None else f" in column {mark.column + 1}"
    problem = " ".join(_QUOTED.sub("", str(error.problem or error.context or "cannot be parsed")).split())
    if "another document" in problem:
        diagnostics.problem(where, "a second YAML document starts here", "keep one document in a file")
        return
    diagnostics.problem(where, f"not valid YAML{column}: {problem}", 'mend the syntax; an operator needs quotes, as in [">=", 1]')


class _Tree:
    """Builds the values of one document."""

    def __init__(self, place: SourceLocation, diagnostics: Diagnostics) -> None:
        self.lines: dict[_Path, int] = {}
        self._place = place
        self._diagnostics = diagnostics
        self._left = MAX_VALUES

    def value(self, node: Node, path: _Path) -> object:
        self._left -= 1
        if self._left < 0:
            self._report(node, path, f"more than {MAX_VALUES:,} values", "split the file, or use fewer aliases")
            raise _StopError
        if len(path) > MAX_DEPTH:
            self._report(node, path, f"nested more than {MAX_DEPTH} deep", "flatten it, or cut the alias that holds itself")
            raise _StopError
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if str(node.tag) not in (f"{_TAG_PREFIX}map", f"{_TAG_PREFIX}seq"):
            self._refuse_tag(node, path)
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        return [self.value(member, (*path, index)) for index, member in enumerate(node.value)]

    def _mapping(self, node: MappingNode, path: _Path) -> object:
        built: dict[str, object] = {}
        for key_node, member in node.value:
            key = self._scalar(key_node, path) if isinstance(key_node, ScalarNode) else None
            if not isinstance(key, str):
                shown = quoted(str(key_node.value)) if isinstance(key_node, ScalarNode) else "a list or an object"
                self._report(key_node, path, f"the key {shown} is not text", "put it in quotes")
            elif key == "<<" and key_node.style is None:
                self._report(key_node, path, "merge keys (<<) are not part of YAML 1.2", "write the keys out")
            elif key in built:
                first = self.lines[(*path, key)]
                self._report(key_node, path, f"the key {quoted(key)} stands twice, first in line {first}", "remove one of them")
            else:
                self.lines[(*path, key)] = key_node.start_mark.line + 1
                built[key] = self.value(member, (*path, key))
        return built

    def _scalar(self, node: ScalarNode, path: _Path) -> object:
        tag, text = str(node.tag), str(node.value)
        if tag == _TEXT_TAG or (tag in _RESOLVED_TAGS and node.style is not None):
            return text
        if tag not in _RESOLVED_TAGS:
            self._refuse_tag(node, path)
            return text
        if text in _WORDS:
            return _WORDS[text]
        try:
            return _number(text)
        except ValueError:
            self._report(node, path, "the number is too long", "write it as text, in quotes")
            return text

    def _refuse_tag(self, node: Node, path: _Path) -> None:
        tag = str(node.tag).rstrip(",")  # in [!=, 1] the comma belongs to it
        if tag in _OPERATORS:  # an unquoted != is a tag to YAML
            self._report(node, path, f"{quoted(tag)} is read as a YAML tag", f'put it in quotes: "{tag}"')
        else:
            self._report(node, path, "a YAML tag is not allowed", "remove it, or put text that begins with ! in quotes")

    def _report(self, node: Node, path: _Path, what: str, fix: str) -> None:
        here = (*path, "")  # a path of its own: the key that is at fault may have no value yet
        lines = {here: node.start_mark.line + 1}
        self._diagnostics.problem(SourceLocation(origin=self._place.origin, lines=lines, path=here, shown=path), what, fix)


def _number(text: str) -> int | float | str:
    """Return what a plain scalar stands for in YAML 1.2's core schema; text if it is no number."""
    if _INTEGER.fullmatch(text):
        return read_integer(text)
    if _WITH_BASE.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return text
