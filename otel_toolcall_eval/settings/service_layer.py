"""One layer of settings: what the service file sets, or what one environment variable sets, as values by dotted name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.assembly.span_kinds import RootCondition
from otel_toolcall_eval.settings.config_model import Shape, check, member, place_of
from otel_toolcall_eval.settings.criteria_file import CriteriaSource
from otel_toolcall_eval.settings.diagnostics import quoted
from otel_toolcall_eval.settings.forward_shape import ForwardTlsShape
from otel_toolcall_eval.settings.service_shapes import SECTIONS, CriteriaEntryShape, OtlpShape, RootShape, ServiceShape
from otel_toolcall_eval.settings.types import OFF, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from otel_toolcall_eval.settings.diagnostics import Findings, Place


def read_layer(raw: object, place: Place, findings: Findings, *, folder: Path, context: object = None) -> Mapping[str, object]:
    """Return what a layer sets, by name, such as ``listen.grpc``; what is wrong with it goes to ``findings``.

    Args:
        raw: the layer in the form of the service file; None sets nothing.
        place: its top.
        findings: takes problems and warnings.
        folder: what relative paths are relative to.
        context: for the validators.
    """
    shape = check(ServiceShape, {} if raw is None else raw, place, findings, context=context)
    values: dict[str, object] = {}
    for section in () if shape is None else SECTIONS:
        values.update(_given(section, getattr(shape, section)))
    tls = values.pop("forward.tls", None)
    if isinstance(tls, ForwardTlsShape):
        values.update(_given("forward.tls", tls))
    values.update({name: folder / str(path) for name, path in values.items() if name.endswith("_file")})
    values.pop("export.otlp", None)
    root = values.get("completion.root")
    if isinstance(root, RootShape):
        values["completion.root"] = _root(root, place.at("completion", "root"), findings)
    for name in ("journal.path", "status.path"):
        path = values.get(name)
        if isinstance(path, str):
            values[name] = folder / path
    # These two are looked at even if the rest is faulty, so that a user sees all faults at once.
    otlp = member(member(raw, "export"), "otlp")
    if otlp is not None:
        values.update(_otlp(otlp, place_of(raw, "export", place).at("otlp"), findings, context))
    criteria = member(raw, "criteria")
    if isinstance(criteria, list):
        found = (_criteria_entry(entry, place.at("criteria", index), findings, folder) for index, entry in enumerate(criteria))
        values["criteria"] = tuple(source for source in found if source is not None)
    if shape is not None and shape.dialects is not None:
        values["dialects"] = tuple(folder / path for path in shape.dialects)
    if shape is not None and shape.workers is not None:
        values["workers"] = shape.workers
    return values


def _given(section: str, shape: Shape | None) -> Iterator[tuple[str, object]]:
    for name in () if shape is None else shape.model_fields_set:
        value = getattr(shape, name)
        if isinstance(value, Shape) and not isinstance(value, RootShape):
            yield from _given(f"{section}.{name}", value)
        elif value is not None:
            yield f"{section}.{name}", value


def _root(shape: RootShape, place: Place, findings: Findings) -> RootCondition:
    attributes = []
    for key, value in shape.attributes.items():
        if isinstance(value, str | int | float):
            attributes.append((key, value))
        else:
            findings.problem(place.at("attributes", key), f"this is {kind_of(value)}", "write text, a number, true or false")
    return RootCondition(name=shape.name, attributes=tuple(attributes))


def _otlp(raw: object, place: Place, findings: Findings, context: object) -> Mapping[str, object]:
    if raw is False or (isinstance(raw, str) and raw.strip().lower() == OFF):
        return {"export.enabled": False}
    if isinstance(raw, str):
        findings.problem(place, f"{quoted(raw)} is not known here", "write off, or an object with an endpoint")
        return {}
    found = dict(_given("export", check(OtlpShape, raw, place, findings, context=context)))
    return {**found, "export.enabled": True} if "export.endpoint" in found else found


def _criteria_entry(raw: object, place: Place, findings: Findings, folder: Path) -> CriteriaSource | None:
    if isinstance(raw, str) and raw:
        return CriteriaSource(path=folder / raw)
    if not isinstance(raw, dict):
        what = "this is empty" if raw == "" else f"this is {kind_of(raw)}, not a path"
        findings.problem(place, what, "write a path, or an object with path and services")
        return None
    shape = check(CriteriaEntryShape, raw, place, findings)
    return None if shape is None else CriteriaSource(path=folder / shape.path, services=shape.services or frozenset())
