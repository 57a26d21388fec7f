"""Where criteria come from: files and folders, and what kind of file each is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from os.path import realpath
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from otel_toolcall_eval.settings.document import SUFFIXES
from otel_toolcall_eval.settings.place import Place
from otel_toolcall_eval.settings.shape import member
from otel_toolcall_eval.settings.suggestion import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_toolcall_eval.settings.document import Document
    from otel_toolcall_eval.settings.place import Findings

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


def files_of(source: CriteriaSource, findings: Findings) -> list[Path]:
    """Return the files of a source, in the order of their names; what can't be read goes to ``findings``.

    In a folder these are ``*.json``, ``*.yaml`` and ``*.yml``. Names that begin with a dot are passed over: editors and
    version control keep such files, and Kubernetes mounts the true files of a ConfigMap in such a folder, linked from above.
    """
    place = Place(origin=str(source.path))
    try:
        if not source.path.is_dir():
            return [source.path]
        found = list(_below(source.path, set(), [MAX_ENTRIES]))
    except _TooManyError:
        findings.problem(place, f"more than {MAX_ENTRIES:,} files lie below this folder", "name the folder that holds the criteria")
        return []
    except OSError as error:
        origin = str(error.filename or source.path)
        findings.problem(Place(origin=origin), f"the folder can't be read ({error.strerror})", "check its permissions")
        return []
    if not found:
        findings.problem(place, "the folder holds no .json, .yaml or .yml file", "name another, or put criteria into it")
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
        meant = nearest(key, known)
        if meant is not None and key not in others:
            return f"did you mean {quoted(meant)} where it says {quoted(key)}?"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Where in a file unknown keys are warned about, in place of being errors.

    Attributes:
        structure: in the file, its items and evaluators: in the sample's form, whose tools write more than we read.
        content: in configurations and criteria: in all JSON, since these are the guides' own words even in a file that also uses
            ours. A misspelt key that has to be there is an error in any case.
    """

    structure: bool
    content: bool


def tolerance_of(document: Document) -> Tolerance:
    """Return where unknown keys of a file are tolerated."""
    return Tolerance(structure=not in_our_form(document), content=not document.yaml)


def in_our_form(document: Document) -> bool:
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
