"""Loads criteria: evaluator files and eval sets, in the sample's own form or in ours, from files and folders.

The two forms are one structure. The sample's (JSON, camelCase, none of our keys) may hold keys that we don't know, since its
tools write more than we read: they are warned about. In ours an unknown key is an error. Everything else is as strict in both.
All files are read to the end before anything is raised.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from os.path import realpath
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from otel_toolcall_eval.model.criteria import CriteriaSet, Selector, SelectorScope
from otel_toolcall_eval.model.errors import CriteriaError, Problem
from otel_toolcall_eval.settings.config_model import member
from otel_toolcall_eval.settings.criteria_check import versioned
from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation, did_you_mean, quoted
from otel_toolcall_eval.settings.document import SUFFIXES, read_document
from otel_toolcall_eval.settings.eval_set_file import EvalSetReader, LocatedSet
from otel_toolcall_eval.settings.evaluator_file import EvaluatorScope, Strictness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from otel_toolcall_eval.settings.document import SettingsDocument


MAX_ENTRIES = 20_000
"""Files and folders that are looked at below one path; a mistaken ``/`` ends here, and not in hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaSource:
    """A file, or a folder that is read with all that lies below it.

    Attributes:
        services: values of ``service.name`` that these criteria are for; empty means any.
    """

    path: Path
    services: frozenset[str] = frozenset()


class _TooManyError(Exception):
    """There is more below a path than anyone keeps criteria in."""


def files_of(source: CriteriaSource, diagnostics: Diagnostics) -> list[Path]:
    """Return the files of a source, in the order of their names; what can't be read goes to ``diagnostics``.

    In a folder these are ``*.json``, ``*.yaml`` and ``*.yml``. Names that begin with a dot are passed over: editors and
    version control keep such files, and Kubernetes mounts the true files of a ConfigMap in such a folder, linked from above.
    """
    place = SourceLocation(origin=str(source.path))
    try:
        if not source.path.is_dir():
            return [source.path]
        found = list(_below(source.path, set(), [MAX_ENTRIES]))
    except _TooManyError:
        diagnostics.problem(place, f"more than {MAX_ENTRIES:,} files lie below this folder", "name the folder that holds the criteria")
        return []
    except OSError as error:
        origin = str(error.filename or source.path)
        diagnostics.problem(SourceLocation(origin=origin), f"the folder can't be read ({error.strerror})", "check its permissions")
        return []
    if not found:
        diagnostics.problem(place, "the folder holds no .json, .yaml or .yml file", "name another, or put criteria into it")
    return found


def true_path(path: Path) -> str:
    """Return what is the same for all names of a file; the path itself if it can't be a file's."""
    try:
        return realpath(path)
    except ValueError:  # a NUL in it
        return str(path)


def _below(folder: Path, visited: set[str], left: list[int]) -> Iterator[Path]:
    true_folder = true_path(folder)
    if true_folder in visited:  # a link that leads back up
        return
    visited.add(true_folder)
    for entry in sorted(folder.iterdir()):
        left[0] -= 1
        if left[0] < 0:
            raise _TooManyError
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _below(entry, visited, left)
        elif entry.suffix.lower() in SUFFIXES:
            yield entry


class FileKind(Enum):
    """What a file is, by its keys."""

    EVALUATOR = "evaluator"
    EVAL_SET = "eval set"
    OTHER = "other"


_TELLING_KEYS = ("evaluator_type_id", "evaluations", "evaluators")
# Keys that only our form has. Some stand at the top, others in items, configurations and criteria.
_OUR_WORDS = frozenset({"match", "pass_threshold", "include", "evaluators", "matching", "parallel"})
_OUR_SPELLINGS = frozenset({"evaluator_type_id", "evaluator_config", "evaluator_refs", "evaluation_criterias"})
# The keys of configurations and criteria are no sign: the guides spell them default_evaluation_criteria and tool_calls_count, the
# sample defaultEvaluationCriteria and toolCallsCount, and both are its own form.
_OUR_KEYS = _OUR_WORDS | {to_camel(word) for word in _OUR_WORDS} | _OUR_SPELLINGS


def kind_of_file(value: object) -> FileKind:
    """Tell what a file's content is."""
    if not isinstance(value, dict):
        return FileKind.OTHER
    if "evaluatorTypeId" in value or "evaluator_type_id" in value:
        return FileKind.EVALUATOR
    return FileKind.EVAL_SET if "evaluations" in value or "evaluators" in value else FileKind.OTHER


def meant_kind(value: object) -> str | None:
    """Return the cure for a file that would be criteria but for a misspelt key; None if it is something else altogether."""
    known = {*_TELLING_KEYS, *(to_camel(key) for key in _TELLING_KEYS)}
    others = {"evaluatorRefs", "evaluatorConfig", "evaluator_refs", "evaluator_config"}
    for key in value if isinstance(value, dict) else ():
        meant = did_you_mean(key, known)
        if meant is not None and key not in others:
            return f"did you mean {quoted(meant)} where it says {quoted(key)}?"
    return None


def strictness_of(document: SettingsDocument) -> Strictness:
    """Return where unknown keys of a file are errors."""
    return Strictness(structure=in_our_form(document), content=document.yaml)


def in_our_form(document: SettingsDocument) -> bool:
    """Tell whether a file is written in our form, where unknown keys are errors, or in the sample's, which may have more keys."""
    return document.yaml or any(not _OUR_KEYS.isdisjoint(found) for found in _structure(document.value))


def _structure(value: object) -> Iterator[dict[str, object]]:
    """Yield the objects whose keys belong to the format; what tools are called, or given, is not looked at."""
    config = member(value, "evaluator_config")
    items = member(value, "evaluations")
    candidates = [value, config, member(config, "default_evaluation_criteria")]
    for item in items if isinstance(items, list) else ():
        criterias = member(item, "evaluation_criterias")
        candidates += [item, *(criterias.values() if isinstance(criterias, dict) else ())]
    yield from (candidate for candidate in candidates if isinstance(candidate, dict))


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
    diagnostics = Diagnostics()
    loading = _Loading(diagnostics)
    for source in sources:
        loading.read(source)
    placed = loading.criteria_sets()
    diagnostics.raise_any(CriteriaError)
    if sources and not placed:
        where = ", ".join(str(source.path) for source in sources)
        fix = "give an eval set, or default criteria in an evaluator"
        raise CriteriaError.of([Problem(where=where, what="nothing in these files is evaluated", fix=fix), *diagnostics.warnings])
    return LoadedCriteria(sets=tuple(item.criteria_set for item in placed), warnings=diagnostics.warnings)


class _Loading:
    """Gathers the evaluators of all files first, since eval sets refer to them."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._seen: dict[str, frozenset[str]] = {}
        self._scopes: list[tuple[EvaluatorScope, frozenset[str]]] = []
        self._eval_sets: list[tuple[EvalSetReader, frozenset[str], EvaluatorScope]] = []

    def read(self, source: CriteriaSource) -> None:
        scope = EvaluatorScope()
        self._scopes.append((scope, source.services))
        for path in files_of(source, self._diagnostics):
            if self._is_new(path, source):
                document = read_document(path, self._diagnostics)
                if document is not None:
                    self._read_file(document, source, scope, direct=path == source.path)
        scope.settle_names(self._diagnostics)

    def _is_new(self, path: Path, source: CriteriaSource) -> bool:
        """Tell whether a file is met for the first time; it may be named twice, or once more by the folder around it."""
        true = true_path(path)
        if true in self._seen and self._seen[true] != source.services:
            what = "the file is read once, for the services of the first path that leads to it"
            self._diagnostics.warn(SourceLocation(origin=str(path)), what, "name it, or the folder around it, once")
        if true in self._seen:
            return False
        self._seen[true] = source.services
        return True

    def _read_file(self, document: SettingsDocument, source: CriteriaSource, scope: EvaluatorScope, *, direct: bool) -> None:
        strictness = strictness_of(document)
        match kind_of_file(document.value):
            case FileKind.EVALUATOR:
                scope.add(document.value, document.place, self._diagnostics, strictness=strictness)
            case FileKind.EVAL_SET:
                reader = EvalSetReader(document, self._diagnostics, services=source.services, strictness=strictness)
                self._eval_sets.append((reader, source.services, scope))
            case _:
                self._other(document, direct=direct)

    def _other(self, document: SettingsDocument, *, direct: bool) -> None:
        what = "this is neither an evaluator nor an eval set"
        meant = meant_kind(document.value)
        if direct or (meant is not None and document.yaml):
            self._diagnostics.problem(document.place, what, meant or "an eval set has evaluations, an evaluator has evaluatorTypeId")
        else:
            self._diagnostics.warn(document.place, f"{what}, and is passed over", meant or "nothing to do if it is something else")

    def criteria_sets(self) -> Sequence[LocatedSet]:
        """Return all criteria sets, their names unique and their versions set."""
        found: list[LocatedSet] = []
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

    def _refuse_repeated_names(self, found: Sequence[LocatedSet]) -> None:
        first: dict[str, SourceLocation] = {}
        for item in found:
            name = item.criteria_set.name
            if name in first:
                what = f"the name {quoted(name)} is taken by {first[name].file_and_line}"
                self._diagnostics.problem(item.place, what, "give one of them another ID")
            first.setdefault(name, item.place)

    def _usable_aliases(self, found: Sequence[LocatedSet]) -> Iterator[list[str]]:
        """Yield the aliases of each set that stand for it alone; the others are warned about."""
        uses = Counter(alias for item in found for alias in item.criteria_set.aliases)
        uses.update({item.criteria_set.name for item in found})
        for item in found:
            for alias in item.criteria_set.aliases:
                if uses[alias] > 1:
                    what = f"several items are called {quoted(alias)}, so traces have to name them by ID"
                    self._diagnostics.warn(item.place, what, "give each its own name")
            yield [alias for alias in item.criteria_set.aliases if uses[alias] == 1]


def _defaults(scope: EvaluatorScope, services: frozenset[str], taken: AbstractSet[str]) -> Iterator[LocatedSet]:
    """Yield the default criteria of evaluators as criteria sets.

    Such a set is named after its evaluator, unless an item has that name already: traces mean the item then.
    """
    for evaluator in scope.evaluators:
        if evaluator.default is not None:
            reach = SelectorScope.UNNAMED if services else SelectorScope.FALLBACK
            built = CriteriaSet(
                name=evaluator.key if evaluator.key not in taken else f"{evaluator.key} (default)",
                checks=(evaluator.check(evaluator.default),),
                selector=Selector(reach=reach, services=services),
                source=evaluator.place.origin,
            )
            yield LocatedSet(criteria_set=built, place=evaluator.place)
