"""One layer of settings: what the service file sets, or what one environment variable sets, as values by dotted name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.assembly.span_kinds import RootCondition
from otel_toolcall_eval.settings.config_model import ConfigModel, check, member, place_of
from otel_toolcall_eval.settings.criteria_file import CriteriaSource
from otel_toolcall_eval.settings.diagnostics import quoted
from otel_toolcall_eval.settings.forward_shape import ForwardTlsModel
from otel_toolcall_eval.settings.service_shapes import SECTIONS, CriteriaEntryModel, OtlpModel, RootModel, ServiceModel
from otel_toolcall_eval.settings.types import OFF, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation


def read_layer(
    raw: object, place: SourceLocation, diagnostics: Diagnostics, *, folder: Path, context: object = None
) -> Mapping[str, object]:
    """Return what a layer sets, by name, such as ``listen.grpc``; what is wrong with it goes to ``diagnostics``.

    Args:
        raw: the layer in the form of the service file; None sets nothing.
        place: its top.
        diagnostics: takes problems and warnings.
        folder: what relative paths are relative to.
        context: for the validators.
    """
    model = check(ServiceModel, {} if raw is None else raw, place, diagnostics, context=context)
    values: dict[str, object] = {}
    for section in () if model is None else SECTIONS:
        values.update(_given(section, getattr(model, section)))
    tls = values.pop("forward.tls", None)
    if isinstance(tls, ForwardTlsModel):
        values.update(_given("forward.tls", tls))
    values.update({name: folder / str(path) for name, path in values.items() if name.endswith("_file")})
    values.pop("export.otlp", None)
    root = values.get("completion.root")
    if isinstance(root, RootModel):
        values["completion.root"] = _root(root, place.at("completion", "root"), diagnostics)
    for name in ("journal.path", "status.path"):
        path = values.get(name)
        if isinstance(path, str):
            values[name] = folder / path
    # These two are looked at even if the rest is faulty, so that a user sees all faults at once.
    otlp = member(member(raw, "export"), "otlp")
    if otlp is not None:
        values.update(_otlp(otlp, place_of(raw, "export", place).at("otlp"), diagnostics, context))
    criteria = member(raw, "criteria")
    if isinstance(criteria, list):
        found = (_criteria_entry(entry, place.at("criteria", index), diagnostics, folder) for index, entry in enumerate(criteria))
        values["criteria"] = tuple(source for source in found if source is not None)
    if model is not None and model.dialects is not None:
        values["dialects"] = tuple(folder / path for path in model.dialects)
    if model is not None and model.workers is not None:
        values["workers"] = model.workers
    return values


def _given(section: str, model: ConfigModel | None) -> Iterator[tuple[str, object]]:
    for name in () if model is None else model.model_fields_set:
        value = getattr(model, name)
        if isinstance(value, ConfigModel) and not isinstance(value, RootModel):
            yield from _given(f"{section}.{name}", value)
        elif value is not None:
            yield f"{section}.{name}", value


def _root(model: RootModel, place: SourceLocation, diagnostics: Diagnostics) -> RootCondition:
    attributes = []
    for key, value in model.attributes.items():
        if isinstance(value, str | int | float):
            attributes.append((key, value))
        else:
            diagnostics.problem(place.at("attributes", key), f"this is {kind_of(value)}", "write text, a number, true or false")
    return RootCondition(name=model.name, attributes=tuple(attributes))


def _otlp(raw: object, place: SourceLocation, diagnostics: Diagnostics, context: object) -> Mapping[str, object]:
    if raw is False or (isinstance(raw, str) and raw.strip().lower() == OFF):
        return {"export.enabled": False}
    if isinstance(raw, str):
        diagnostics.problem(place, f"{quoted(raw)} is not known here", "write off, or an object with an endpoint")
        return {}
    found = dict(_given("export", check(OtlpModel, raw, place, diagnostics, context=context)))
    return {**found, "export.enabled": True} if "export.endpoint" in found else found


def _criteria_entry(raw: object, place: SourceLocation, diagnostics: Diagnostics, folder: Path) -> CriteriaSource | None:
    if isinstance(raw, str) and raw:
        return CriteriaSource(path=folder / raw)
    if not isinstance(raw, dict):
        what = "this is empty" if raw == "" else f"this is {kind_of(raw)}, not a path"
        diagnostics.problem(place, what, "write a path, or an object with path and services")
        return None
    model = check(CriteriaEntryModel, raw, place, diagnostics)
    return None if model is None else CriteriaSource(path=folder / model.path, services=model.services or frozenset())
