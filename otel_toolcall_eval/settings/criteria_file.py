"""Loads criteria: evaluator files and eval sets, in the sample's own form or in ours, from files and folders.

The two forms are one structure. The sample's (JSON, camelCase, none of our keys) may hold keys that we don't know, since its
tools write more than we read: they are warned about. In ours an unknown key is an error. Everything else is as strict in both.
All files are read to the end before anything is raised.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING

from otel_toolcall_eval.errors import CriteriaError, Problem
from otel_toolcall_eval.model.criteria import Check, CriteriaSet, Reach, Selector
from otel_toolcall_eval.settings.criteria_check import build_check, check_config
from otel_toolcall_eval.settings.criteria_source import (
    CriteriaSource,
    FileKind,
    files_of,
    kind_of_file,
    meant_kind,
    tolerance_of,
    true_path,
)
from otel_toolcall_eval.settings.document import read_document
from otel_toolcall_eval.settings.eval_set_file import EvalSetReader, PlacedSet
from otel_toolcall_eval.settings.evaluator_file import Scope
from otel_toolcall_eval.settings.place import Findings, Place
from otel_toolcall_eval.settings.suggestion import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from otel_toolcall_eval.settings.document import Document

__all__ = ["CriteriaSource", "LoadedCriteria", "build_check", "check_config", "load_criteria", "versioned"]

_VERSION_CHARACTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCriteria:
    """What criteria files hold.

    Attributes:
        sets: eval items in order of their files, then the default criteria of evaluators; names are unique.
        warnings: what a user should know and need not mend.
    """

    sets: tuple[CriteriaSet, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_criteria(sources: Sequence[CriteriaSource]) -> LoadedCriteria:
    """Load criteria files.

    Args:
        sources: files and folders. A file named here has to be usable; files in a folder that are neither evaluators nor
            eval sets are warned about. No sources: no criteria.

    Raises:
        CriteriaError: with all that is wrong with all files, or because nothing to evaluate came of them.
    """
    findings = Findings()
    loading = _Loading(findings)
    for source in sources:
        loading.read(source)
    placed = loading.criteria_sets()
    findings.raise_any(CriteriaError)
    if sources and not placed:
        where = ", ".join(str(source.path) for source in sources)
        fix = "give an eval set, or default criteria in an evaluator"
        raise CriteriaError.of([Problem(where=where, what="nothing in these files is evaluated", fix=fix), *findings.warnings])
    return LoadedCriteria(sets=tuple(item.criteria_set for item in placed), warnings=findings.warnings)


class _Loading:
    """Gathers the evaluators of all files first, since eval sets refer to them."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._seen: dict[str, frozenset[str]] = {}
        self._scopes: list[tuple[Scope, frozenset[str]]] = []
        self._eval_sets: list[tuple[EvalSetReader, frozenset[str], Scope]] = []

    def read(self, source: CriteriaSource) -> None:
        scope = Scope()
        self._scopes.append((scope, source.services))
        for path in files_of(source, self._findings):
            if self._is_new(path, source):
                document = read_document(path, self._findings)
                if document is not None:
                    self._read_file(document, source, scope, direct=path == source.path)
        scope.settle_names(self._findings)

    def _is_new(self, path: Path, source: CriteriaSource) -> bool:
        """Tell whether a file is met for the first time; it may be named twice, or once more by the folder around it."""
        true = true_path(path)
        if true in self._seen and self._seen[true] != source.services:
            what = "the file is read once, for the services of the first path that leads to it"
            self._findings.warn(Place(origin=str(path)), what, "name it, or the folder around it, once")
        if true in self._seen:
            return False
        self._seen[true] = source.services
        return True

    def _read_file(self, document: Document, source: CriteriaSource, scope: Scope, *, direct: bool) -> None:
        tolerance = tolerance_of(document)
        match kind_of_file(document.value):
            case FileKind.EVALUATOR:
                scope.add(document.value, document.place, self._findings, tolerance=tolerance)
            case FileKind.EVAL_SET:
                reader = EvalSetReader(document, self._findings, services=source.services, tolerance=tolerance)
                self._eval_sets.append((reader, source.services, scope))
            case _:
                self._other(document, direct=direct)

    def _other(self, document: Document, *, direct: bool) -> None:
        what = "this is neither an evaluator nor an eval set"
        meant = meant_kind(document.value)
        if direct or (meant is not None and document.yaml):
            self._findings.problem(document.place, what, meant or "an eval set has evaluations, an evaluator has evaluatorTypeId")
        else:
            self._findings.warn(document.place, f"{what}, and is passed over", meant or "nothing to do if it is something else")

    def criteria_sets(self) -> Sequence[PlacedSet]:
        """Return all criteria sets, their names unique and their versions set."""
        found: list[PlacedSet] = []
        for reader, _, own in self._eval_sets:
            others = (scope for scope, _ in self._scopes if scope is not own)
            found.extend(reader.read([own, *others]))
        taken = {item.criteria_set.name for item in found}
        for scope, services in [*self._scopes, *((reader.inline, services) for reader, services, _ in self._eval_sets)]:
            found.extend(_defaults(scope, services, taken))
        self._refuse_repeated_names(found)
        usable = self._usable_aliases(found)
        return [
            replace(item, criteria_set=versioned(replace(item.criteria_set, aliases=tuple(aliases))))
            for item, aliases in zip(found, usable, strict=True)
        ]

    def _refuse_repeated_names(self, found: Sequence[PlacedSet]) -> None:
        first: dict[str, Place] = {}
        for item in found:
            name = item.criteria_set.name
            if name in first:
                what = f"the name {quoted(name)} is taken by {first[name].file_and_line}"
                self._findings.problem(item.place, what, "give one of them another ID")
            first.setdefault(name, item.place)

    def _usable_aliases(self, found: Sequence[PlacedSet]) -> Iterator[list[str]]:
        """Yield the aliases of each set that stand for it alone; the others are warned about."""
        uses = Counter(alias for item in found for alias in item.criteria_set.aliases)
        uses.update({item.criteria_set.name for item in found})
        for item in found:
            for alias in item.criteria_set.aliases:
                if uses[alias] > 1:
                    what = f"several items are called {quoted(alias)}, so traces have to name them by ID"
                    self._findings.warn(item.place, what, "give each its own name")
            yield [alias for alias in item.criteria_set.aliases if uses[alias] == 1]


def _defaults(scope: Scope, services: frozenset[str], taken: AbstractSet[str]) -> Iterator[PlacedSet]:
    """Yield the default criteria of evaluators as criteria sets. Source: DESIGN, section 4, rule 4.

    Such a set is named after its evaluator, unless an item has that name already: traces mean the item then.
    """
    for evaluator in scope.evaluators:
        if evaluator.default is not None:
            reach = Reach.UNNAMED if services else Reach.FALLBACK
            built = CriteriaSet(
                name=evaluator.key if evaluator.key not in taken else f"{evaluator.key} (default)",
                checks=(evaluator.check(evaluator.default),),
                selector=Selector(reach=reach, services=services),
                source=evaluator.place.origin,
            )
            yield PlacedSet(criteria_set=built, place=evaluator.place)


def versioned(criteria_set: CriteriaSet) -> CriteriaSet:
    """Return the set with a version that is the same in every process, and differs when anything but the file's name does."""
    content = _canonical(replace(criteria_set, version="", source=""))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return replace(criteria_set, version=hashlib.sha256(text.encode()).hexdigest()[:_VERSION_CHARACTERS])


def _canonical(value: object) -> object:
    """Return a value as JSON can hold it: sets sorted, dataclasses as objects."""
    if is_dataclass(value) and not isinstance(value, type):
        given = [field.name for field in fields(value) if field.init]  # what else there is follows from these
        members = {name: _canonical(getattr(value, name)) for name in given}
        return {**members, "pass_threshold": float(value.pass_threshold)} if isinstance(value, Check) else members  # 1 is 1.0
    if isinstance(value, Mapping):
        return {str(key): _canonical(member) for key, member in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(str(member) for member in value)
    if isinstance(value, list | tuple):
        return [_canonical(member) for member in value]
    return value
