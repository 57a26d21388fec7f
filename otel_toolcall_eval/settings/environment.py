"""Settings from environment variables.

One rule: ``OTEL_TOOLCALL_EVAL_<SECTION>_<NAME>`` sets ``<section>.<name>`` of the service file, written as there, without quotes.
An empty variable is not set, as everywhere in OpenTelemetry. Lists of paths are separated as the system's ``PATH`` is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.settings.diagnostics import SourceLocation, did_you_mean, quoted
from otel_toolcall_eval.settings.forward_shape import ForwardTlsModel
from otel_toolcall_eval.settings.redact_shape import RedactModel
from otel_toolcall_eval.settings.service_layer import read_layer
from otel_toolcall_eval.settings.service_shapes import SECTIONS, OtlpModel, TlsModel
from otel_toolcall_eval.settings.types import FROM_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.settings.diagnostics import Diagnostics

PREFIX: Final = "OTEL_TOOLCALL_EVAL_"
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
"""Path of the service file."""

_GUARDING = f"{PREFIX}EXPLAIN_"

_LISTS = {f"{PREFIX}{name.upper()}": name for name in ("criteria", "dialects")}


def _paths() -> Mapping[str, tuple[str, ...]]:
    leaves: list[tuple[str, ...]] = [(section, name) for section, model in SECTIONS.items() for name in model.model_fields]
    leaves.remove(("completion", "root"))
    leaves.remove(("listen", "tls"))
    leaves.remove(("forward", "tls"))
    leaves.remove(("explain", "redact"))
    leaves += [("forward", "tls", name) for name in ForwardTlsModel.model_fields]
    leaves += [("completion", "root", "name"), *(("export", "otlp", name) for name in OtlpModel.model_fields)]
    listeners = [("listen", name) for name in ("grpc", "http", "control")]  # by itself, each is an address, too
    leaves += [(*around, "tls", name) for around in (("listen",), *listeners) for name in TlsModel.model_fields]
    leaves += [(*around, name) for around in listeners for name in ("address", "token_file")]
    leaves += [("explain", "redact", name) for name in RedactModel.model_fields]
    leaves += [("listen", "http", "cors", "allowed_origins"), ("workers",)]
    return {PREFIX + "_".join(leaf).upper(): leaf for leaf in leaves}


SINGLE_VARIABLES = _paths()
"""Variables that set one value, with its path in the service file."""


def read_environment(environ: Mapping[str, str], diagnostics: Diagnostics) -> Mapping[str, object]:
    """Return what the environment sets, by name; unknown variables with our prefix are warned about; those of explanations are refused."""
    values: dict[str, object] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        text = environ[variable]
        if variable == CONFIG_VARIABLE or not text.strip():
            continue
        place = SourceLocation(origin=variable)
        if variable in _LISTS:
            raw: object = {_LISTS[variable]: [path for path in text.split(os.pathsep) if path]}
        elif variable in SINGLE_VARIABLES:
            raw = text
            for step in reversed(SINGLE_VARIABLES[variable]):
                raw = {step: raw}
        else:
            known = (name.removeprefix(PREFIX) for name in (*SINGLE_VARIABLES, *_LISTS, CONFIG_VARIABLE))
            meant = did_you_mean(variable.removeprefix(PREFIX), known)  # by what is not the same in all of them
            fix = "remove it" if meant is None else f"did you mean {quoted(PREFIX + meant)}?"
            # What was to keep secrets in must not let them out for a slip; of others, which may belong to a newer version, it is said.
            tell = diagnostics.problem if variable.startswith(_GUARDING) else diagnostics.warn
            tell(place, "this variable sets nothing", fix)
            continue
        values.update(read_layer(raw, place, diagnostics, folder=Path(), context=FROM_TEXT))
    return values
