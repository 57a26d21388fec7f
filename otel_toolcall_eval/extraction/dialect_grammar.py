"""Reads the tests and the sources of a dialect file."""

from __future__ import annotations

from collections.abc import Mapping

from otel_toolcall_eval.extraction.dialect import (
    CompilePattern,
    Decode,
    Match,
    MatchOperator,
    MessageSource,
    Pattern,
    ReadStep,
    Source,
    Subject,
    Test,
    ValueOrigin,
)
from otel_toolcall_eval.extraction.dialect_value import DialectValue
from otel_toolcall_eval.extraction.messages import MESSAGE_SHAPES
from otel_toolcall_eval.extraction.payload_envelopes import SHAPES

MAX_NESTING = 6
"""How deep conditions may be nested. The shipped ones need two; a bound keeps evaluation and reading from running away."""

_COMPARISONS = tuple(operator.value for operator in MatchOperator)
_SUBJECTS = tuple(subject.value for subject in Subject)
_GROUPS = ("all", "any", "not")
_KEYED = frozenset({Subject.ATTR, Subject.RESOURCE, Subject.EVENT})
_ORIGINS = tuple(origin.value for origin in ValueOrigin)
_STEPS = (ReadStep.PARENT.value, ReadStep.CHILD.value)
_READING = ("decode", "path", "unwrap", "names_from", "wrap_as", "refuse_schema", "cut_when", "only_if", "unless")


class Grammar:
    """Reads tests and sources with one pattern compiler."""

    def __init__(self, compile_pattern: CompilePattern) -> None:
        """Compile patterns with ``compile_pattern``."""
        self._compile = compile_pattern

    def match(self, part: DialectValue, depth: int = 0) -> Match | None:
        """Read ``{all: [...], any: [...], not: [...]}``."""
        if depth > MAX_NESTING:
            part.wrong(f"conditions are nested more than {MAX_NESTING} deep", "flatten them")
            return None
        members = part.mapping(_GROUPS)

        def inner(item: DialectValue) -> Test | Match | None:
            return self.condition(item, depth + 1)

        groups: dict[str, tuple[Test | Match, ...]] = {name: member.each(inner) for name, member in members.items()}
        if not any(groups.values()):
            part.wrong("no condition is here", "write at least one under all, any or not")
            return None
        return Match(every=groups.get("all", ()), some=groups.get("any", ()), none=groups.get("not", ()))

    def condition(self, part: DialectValue, depth: int = 0) -> Test | Match | None:
        """Read a test, or a group of conditions."""
        if isinstance(part.value, Mapping) and any(key in part.value for key in _GROUPS):
            return self.match(part, depth)
        return self.test(part)

    def conditions(self, part: DialectValue) -> tuple[Test | Match, ...]:
        """Read a list of conditions."""
        return part.each(self.condition)

    def guard(self, part: DialectValue) -> Match | None:
        """Read ``only_if`` or ``unless``: one condition, or a list of which all have to hold."""
        if isinstance(part.value, (list, tuple)):
            return Match(every=self.conditions(part))
        condition = self.condition(part)
        return None if condition is None else Match(every=(condition,))

    def test(self, part: DialectValue) -> Test | None:
        """Read ``{attr: KEY, equals: VALUE}`` and its kin."""
        members = part.mapping((*_SUBJECTS, "path", *_COMPARISONS))
        named = [subject for subject in Subject if subject.value in members]
        if len(named) != 1:
            part.wrong("a test needs exactly one thing to look at", f"write one of {', '.join(_SUBJECTS)}")
            return None
        subject = named[0]
        looked_at = members[subject.value]
        if subject in _KEYED:
            return self._comparison(part, subject, looked_at.text(), members)
        if isinstance(looked_at.value, str):
            return Test(subject=subject, operator=MatchOperator.EQUALS, values=(looked_at.text(),))
        return self._comparison(looked_at, subject, "", looked_at.mapping(_COMPARISONS))

    def _comparison(self, part: DialectValue, subject: Subject, key: str, members: Mapping[str, DialectValue]) -> Test | None:
        """Read the operator of a test and what it compares with."""
        named = [operator for operator in MatchOperator if operator.value in members]
        if len(named) > 1:
            part.wrong("a test needs one comparison, several are here", f"keep one of {', '.join(named)}")
            return None
        path = _path(members["path"]) if "path" in members else ()
        if not named:
            return Test(subject=subject, key=key, path=path)
        operator, operand = named[0], members[named[0].value]
        if operator is MatchOperator.EXISTS:
            return Test(subject=subject, key=key, path=path, wanted=operand.truth())
        if operator is MatchOperator.REGEX:
            return Test(subject=subject, key=key, path=path, operator=operator, pattern=self.pattern(operand))
        several = isinstance(operand.value, (list, tuple))
        values = operand.each(lambda item: item.spelling()) if several else (operand.spelling(),)
        return Test(subject=subject, key=key, path=path, operator=operator, values=values)

    def pattern(self, part: DialectValue) -> Pattern | None:
        """Compile a regular expression of bounded length."""
        text = part.text()
        if not text:
            return None
        try:
            return self._compile(text)
        except ValueError as error:
            part.wrong(f"not a regular expression ({error})", "write one that RE2 understands (no look-around, no back-reference)")
            return None

    def source(self, part: DialectValue) -> Source | None:
        """Read ``{attr: KEY, decode: json, ...}`` and its kin."""
        members = part.mapping((*_ORIGINS, *_STEPS, "field", *_READING))
        for step in (ReadStep.PARENT, ReadStep.CHILD):
            if step.value in members:
                inner = self.source(members[step.value])
                if inner is not None and inner.step is not ReadStep.SELF:
                    members[step.value].wrong("only one step to another span is possible", "remove the inner parent or child")
                    return None
                return inner and self._with_reading(inner, members, step)
        named = [origin for origin in ValueOrigin if origin.value in members]
        if len(named) != 1:
            part.wrong("a source needs exactly one place to look", f"write one of {', '.join((*_ORIGINS, *_STEPS))}")
            return None
        return self._with_reading(self._place(part, named[0], members), members, ReadStep.SELF)

    def _place(self, part: DialectValue, origin: ValueOrigin, members: Mapping[str, DialectValue]) -> Source:
        """Read where a source looks."""
        place = members[origin.value]
        if origin is ValueOrigin.SPAN_NAME:
            if place.value is True:
                return Source(origin=origin)
            cut = place.mapping(("strip_prefix", "strip_suffix", "before_last", "regex"))
            return Source(
                origin=origin,
                strip_prefix=cut["strip_prefix"].text() if "strip_prefix" in cut else "",
                strip_suffix=cut["strip_suffix"].text() if "strip_suffix" in cut else "",
                before_last=cut["before_last"].text() if "before_last" in cut else "",
                pattern=self.pattern(cut["regex"]) if "regex" in cut else None,
            )
        if origin is ValueOrigin.EVENT and "field" not in members:
            part.wrong("an event needs the attribute that holds the value", "add field")
        field = members["field"].text() if "field" in members else ""
        return Source(origin=origin, key=place.text(), field=field)

    def _with_reading(self, source: Source, members: Mapping[str, DialectValue], step: ReadStep) -> Source:
        """Add how the value of a source is read."""
        shapes = members["unwrap"].texts() if "unwrap" in members else source.unwrap
        for shape in shapes:
            if shape not in SHAPES:
                members["unwrap"].wrong(f"{shape!r} is not a known shape", f"use some of {', '.join(sorted(SHAPES))}")
        decode = members["decode"].choice(Decode) if "decode" in members else source.decode
        return Source(
            origin=source.origin,
            key=source.key,
            field=source.field,
            step=step,
            strip_prefix=source.strip_prefix,
            strip_suffix=source.strip_suffix,
            before_last=source.before_last,
            pattern=source.pattern,
            decode=decode or Decode.AUTO,
            path=_path(members["path"]) if "path" in members else source.path,
            unwrap=shapes,
            names_from=members["names_from"].text() if "names_from" in members else source.names_from,
            wrap_as=members["wrap_as"].text() if "wrap_as" in members else source.wrap_as,
            refuse_schema=members["refuse_schema"].truth() if "refuse_schema" in members else source.refuse_schema,
            cut_when=self.guard(members["cut_when"]) if "cut_when" in members else source.cut_when,
            only_if=self.guard(members["only_if"]) if "only_if" in members else source.only_if,
            unless=self.guard(members["unless"]) if "unless" in members else source.unless,
        )

    def message_source(self, part: DialectValue) -> MessageSource | None:
        """Read a source with a ``shape``."""
        if not isinstance(part.value, Mapping) or "shape" not in part.value:
            part.wrong("a shape is due, none is here", f"write one of {', '.join(sorted(MESSAGE_SHAPES))}")
            return None
        shape = part.part(part.value["shape"], "shape")
        if shape.text() not in MESSAGE_SHAPES:
            shape.wrong(f"{shape.value!r} is not a known shape", f"use one of {', '.join(sorted(MESSAGE_SHAPES))}")
            return None
        rest = DialectValue({key: value for key, value in part.value.items() if key != "shape"}, where=part.where, problems=part.problems)
        source = self.source(rest)
        return None if source is None else MessageSource(source=source, shape=str(shape.value))


def _path(part: DialectValue) -> tuple[str, ...]:
    return tuple(part.text().split("."))
