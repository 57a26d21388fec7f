"""Which services the evaluated traces are of, and in which version each was seen last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.events.attributes import MAX_NAME_CHARS, clean_name
from otel_toolcall_eval.exporters.names import EVALUATED_SERVICE_VERSION, SERVICE_INFO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Resource

    CountKey = tuple[str, tuple[tuple[str, str], ...]]

_NAME_WORD = names.EVALUATED_SERVICE.name.removeprefix(names.OUR_PREFIX)
_VERSION_WORD = EVALUATED_SERVICE_VERSION.name.removeprefix(names.OUR_PREFIX)


def service_of(report: TraceReport) -> str | None:
    """Return the name of the service that the evaluated span is of; None if its resource tells none."""
    return None if report.evaluated_span is None else _text(report.evaluated_span.resource.attributes.get("service.name"))


class BoundedNames:
    """The values that one attribute may take: the first ``limit`` that come, then ``_OTHER``. Owned by the emitting thread."""

    def __init__(self, limit: int) -> None:
        """Start empty."""
        self._limit = limit
        self._known: dict[str, str] = {}

    def admit(self, value: str) -> str:
        """Return the value, or ``_OTHER`` if there are too many others already."""
        key = value[:MAX_NAME_CHARS]  # a name of megabytes is not kept
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            return names.OTHER
        self._known[key] = clean_name(key)
        return self._known[key]


class EvaluatedServices:
    """Remembers them. ``note`` and ``name_of`` belong to the emitting thread, ``counts`` to any."""

    def __init__(self, vocabulary: BoundedNames) -> None:
        """Start without any; ``vocabulary`` bounds the names, here as in the scores."""
        self._vocabulary = vocabulary
        self._versions: set[tuple[str, str]] = set()
        self._latest: Mapping[str, str | None] = {}  # replaced, never changed, so that any thread reads one moment's
        self._noted: Resource | None = None  # the last one: spans of a request share theirs
        self._named: Resource | None = None  # likewise, and its name, whether or not it is evaluated
        self._name: str | None = None

    def name_of(self, report: TraceReport) -> str | None:
        """Return the same as ``service_of``, which is asked only where the resource is another than the last. The emitting thread's."""
        span = report.evaluated_span
        if span is None:
            return None
        if span.resource is not self._named:
            self._named, self._name = span.resource, service_of(report)
        return self._name

    def note(self, report: TraceReport) -> None:
        """Note the service of a evaluated trace; one that tells no version leaves the one that is known."""
        span = report.evaluated_span
        if span is None or span.resource is self._noted:
            return
        told = service_of(report)
        if told is None:
            return
        self._noted = span.resource
        name = self._vocabulary.admit(told)
        if name == names.OTHER:  # has as many versions as services
            return
        version, known = _text(span.resource.attributes.get("service.version")), self._latest.get(name)
        latest = known if version is None else self._admit(name, version)
        if latest != known or name not in self._latest:
            self._latest = {**self._latest, name: latest}

    def counts(self) -> dict[CountKey, int]:
        """Return ``toolcall_eval.service.info`` of each evaluated service, the version left out if it never told one."""
        return {
            (SERVICE_INFO.name, ((_NAME_WORD, name), *(((_VERSION_WORD, version),) if version else ()))): 1
            for name, version in self._latest.items()
        }

    def _admit(self, name: str, version: str) -> str:
        """Return the version, or ``_OTHER`` once there are too many: one that is new with every trace is a mistake."""
        pair = name, clean_name(version)
        if pair not in self._versions:
            if len(self._versions) >= (EVALUATED_SERVICE_VERSION.limit or 0):
                return names.OTHER
            self._versions.add(pair)
        return pair[1]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
