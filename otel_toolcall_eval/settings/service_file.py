"""Loads the settings of the sidecar and of the span processor: defaults, then the service file, then the environment.

``OTEL_TOOLCALL_EVAL_<SECTION>_<NAME>`` sets ``<section>.<name>`` of the service file, written as there, without quotes. An empty variable
is not set, as everywhere in OpenTelemetry. ``OTEL_*`` variables without our prefix keep their meaning and are read by those who use them,
the exporters above all.

Each layer is validated by itself, and then laid over the one before. Rejected: pydantic-settings, which merges raw layers and validates
the result: a fault that a stronger layer covers would go unseen, and no error could name its file, line or variable. It would also
make the import of the span processor slower by 39 to 55 ms (``python -X importtime``), some 5 ms of which are python-dotenv.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from otel_toolcall_eval.model.errors import Problem, SettingsError
from otel_toolcall_eval.settings.config_model import ConfigModel, check, models_in
from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation, did_you_mean, quoted
from otel_toolcall_eval.settings.document import read_document
from otel_toolcall_eval.settings.endpoint import is_own_address, protocol_of
from otel_toolcall_eval.settings.service import DEFAULTS, Deployment, Forward, Listen, Listener, Settings, TlsFiles, TokenFile
from otel_toolcall_eval.settings.service_models import ServiceModel
from otel_toolcall_eval.settings.types import FROM_TEXT, OFF, Address, AlsoShort, Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX: Final = "OTEL_TOOLCALL_EVAL_"
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
"""Path of the service file."""

_GUARDING = f"{PREFIX}EXPLAIN_"


def _variables(model: type[ConfigModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, field in model.model_fields.items():
        here = (*path, name)
        inner = next(models_in(field.annotation), None)
        if inner is None or here == ("criteria",) or any(isinstance(form, AlsoShort) for form in field.metadata):
            yield PREFIX + "_".join(here).upper(), here
        if inner is not None and here != ("criteria",):
            yield from _variables(inner, here)


SINGLE_VARIABLES: Final = {name: path for name, path in _variables(ServiceModel) if path != ("completion", "root", "attributes")}
"""Variables that set one value, or a list, with its path in the service file."""

# The name inside of what has another name or place in the files; a name of its own at the top has no dot.
_INSIDE = {
    "completion.decision_wait_after_root_received": "completion.wait_after_root_ns",
    "completion.decision_wait_after_root_max": "completion.wait_after_root_max_ns",
    "completion.idle_timeout": "completion.idle_timeout_ns",
    "completion.trace_timeout": "completion.trace_timeout_ns",
    "completion.late_span_window": "completion.late_span_window_ns",
    "completion.shutdown_timeout": "shutdown_timeout_ns",
    "completion.scope": "completion.unit",
    "completion.root_export_timeout": "root_export_timeout_ns",
    "limits.num_traces": "buffer.num_traces",
    "limits.limit_mib": "buffer.limit_bytes",
    "limits.maximum_trace_size_bytes": "buffer.maximum_trace_size_bytes",
    "limits.span_limit": "buffer.span_limit",
    "limits.decision_cache_size": "buffer.decisions",
    "limits.decision_cache_ttl": "buffer.decisions_ns",
    "limits.max_request_bytes": "intake.max_request_bytes",
    "limits.queue_bytes": "intake.queue_bytes",
    "export.otlp.endpoint": "export.endpoint",
    "export.otlp.protocol": "export.protocol",
    "forward.tls.ca_file": "forward.ca_file",
    "forward.tls.cert_file": "forward.cert_file",
    "forward.tls.key_file": "forward.key_file",
    "forward.timeout": "forward.timeout_ns",
    "forward.max_elapsed": "forward.max_elapsed_ns",
    "status.limit_mib": "status.limit_bytes",
    "status.max_age": "status.max_age_ns",
    "explain.values": "show_values",
    "explain.redact.keys": "redact.keys",
    "explain.redact.patterns": "redact.patterns",
    "explain.redact.defaults": "redact.defaults",
}


def load_settings(path: Path | None, environ: Mapping[str, str], deployment: Deployment) -> Settings:
    """Load the settings.

    Args:
        path: the service file (YAML or JSON); None takes the one that ``OTEL_TOOLCALL_EVAL_CONFIG`` names, if any.
        environ: the environment variables.
        deployment: whose defaults hold.

    Raises:
        SettingsError: with all that is wrong with the file and the variables.
    """
    diagnostics = Diagnostics()
    named = environ.get(CONFIG_VARIABLE, "").strip()
    file = Path(named) if path is None and named else path
    values = {**_file_layer(file, diagnostics), **_environment_layer(environ, diagnostics)}
    diagnostics.raise_any(SettingsError)
    problems: list[Problem] = []
    settings = _assemble(DEFAULTS[deployment], values, problems)
    if problems:
        raise SettingsError.of(problems)
    check_forward(settings.forward, settings.listen)
    return replace(settings, warnings=(*diagnostics.warnings, *_oddities(settings), *forward_oddities(settings.forward)))


def _file_layer(file: Path | None, diagnostics: Diagnostics) -> Mapping[str, object]:
    document = None if file is None else read_document(file, diagnostics)
    if file is None or document is None:
        return {}
    return _read_layer(document.value, document.place, diagnostics, Layer(folder=file.parent))


def _environment_layer(environ: Mapping[str, str], diagnostics: Diagnostics) -> Mapping[str, object]:
    """Return what the environment sets; unknown variables with our prefix are warned about; those of explanations are refused."""
    values: dict[str, object] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        raw: object = environ[variable]
        if variable == CONFIG_VARIABLE or not environ[variable].strip():
            continue
        place = SourceLocation(origin=variable)
        if variable in SINGLE_VARIABLES:
            for step in reversed(SINGLE_VARIABLES[variable]):
                raw = {step: raw}
            values.update(_read_layer(raw, place, diagnostics, FROM_TEXT))
            continue
        known = (name.removeprefix(PREFIX) for name in (*SINGLE_VARIABLES, CONFIG_VARIABLE))
        meant = did_you_mean(variable.removeprefix(PREFIX), known)  # by what is not the same in all of them
        fix = "remove it" if meant is None else f"did you mean {quoted(PREFIX + meant)}?"
        # What was to keep secrets in must not let them out for a slip; of others, which may belong to a newer version, it is said.
        tell = diagnostics.problem if variable.startswith(_GUARDING) else diagnostics.warn
        tell(place, "this variable sets nothing", fix)
    return values


def _read_layer(raw: object, place: SourceLocation, diagnostics: Diagnostics, layer: Layer) -> Mapping[str, object]:
    """Return what a layer in the form of the service file sets, by dotted name; None sets nothing."""
    model = check(ServiceModel, {} if raw is None else raw, place, diagnostics, context=layer)
    values = {} if model is None else dict(_given(model, ""))
    if values.pop("export.otlp", None) == OFF:
        values["export.enabled"] = False
    elif "export.otlp.endpoint" in values:
        values["export.enabled"] = True
    return values


def _given(model: ConfigModel, prefix: str) -> Iterator[tuple[str, object]]:
    for name in model.model_fields_set:
        value = getattr(model, name)
        if isinstance(value, ConfigModel):
            yield from _given(value, f"{prefix}{name}.")
        elif value is not None:
            yield prefix + name, tuple(value) if isinstance(value, list) else value


def _assemble(defaults: Settings, values: Mapping[str, object], problems: list[Problem]) -> Settings:
    # The values were validated one by one, and by name; their types are the models' affair, and out of mypy's sight here.
    changed: dict[str, Any] = {"listen": listen_of(defaults.listen, values, problems)}
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, key = _INSIDE.get(name, name).rpartition(".")
        if not section:
            changed[key] = value
        elif not section.startswith("listen"):
            sections.setdefault(section, {})[key] = value
    return replace(defaults, **changed, **{name: replace(getattr(defaults, name), **given) for name, given in sections.items()})


def _oddities(settings: Settings) -> Iterator[Problem]:
    yield from exposures(settings.listen)
    if settings.completion.wait_after_root_ns > settings.completion.wait_after_root_max_ns:
        where = "completion.decision_wait_after_root_received"
        yield Problem(where=where, what="it is longer than decision_wait_after_root_max, which holds", fix="raise that, too")


def listen_of(defaults: Listen, values: Mapping[str, object], problems: list[Problem]) -> Listen:
    """Put the settings of all listeners together.

    Args:
        defaults: what holds where nothing is set.
        values: what is set, by dotted name; validated one by one.
        problems: takes what does not go together.
    """

    def listener(name: str, default: Listener | None) -> Listener | None:
        address = values.get(f"listen.{name}.address", OFF if default is None else default.address)
        if not isinstance(address, Address):
            return None
        token_setting = next((setting for setting in (f"listen.{name}.token_file", "listen.token_file") if setting in values), None)
        return Listener(
            address=address,
            tls=tls.get(f"listen.{name}.tls", tls.get("listen.tls")),
            tokens=None if token_setting is None else TokenFile(setting=token_setting, path=cast("Path", values[token_setting])),
        )

    settings = ("listen.tls", *(f"listen.{name}.tls" for name in ("grpc", "http", "control")))
    tls = {setting: files for setting in settings if (files := _tls_of(setting, values, problems)) is not None}
    found = Listen(
        grpc=listener("grpc", defaults.grpc) or defaults.grpc,
        http=listener("http", defaults.http) or defaults.http,
        control=listener("control", defaults.control),
        allowed_origins=cast("frozenset[str]", values.get("listen.http.cors.allowed_origins", defaults.allowed_origins)),
        allowed_hosts=cast("frozenset[str]", values.get("listen.allowed_hosts", defaults.allowed_hosts)),
        insecure=bool(values.get("listen.insecure", defaults.insecure)),
    )
    problems.extend(_shared_ports(found))
    if not found.insecure:
        problems.extend(_exposed(found, fix=_EXPOSED_FIX))
    return found


def exposures(listen: Listen) -> Iterator[Problem]:
    """Yield what other machines can reach without protection because ``listen.insecure`` says so; to be said loudly."""
    if listen.insecure:
        yield from _exposed(listen, fix="this is so because listen.insecure is set; keep the network closed")


def _tls_of(setting: str, values: Mapping[str, object], problems: list[Problem]) -> TlsFiles | None:
    cert, key, ca = (cast("Path | None", values.get(f"{setting}.{name}")) for name in ("cert_file", "key_file", "client_ca_file"))
    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None:
        missing, fix = ("cert_file", "its certificate") if cert is None else ("key_file", "the private key of cert_file")
        problems.append(Problem(where=setting, what=f"{missing} is missing", fix=f"name {fix}"))
        return None
    return TlsFiles(setting=setting, cert_file=cert, key_file=key, client_ca_file=ca)


_EXPOSED_FIX = (
    "give it tls and a token_file (or a client_ca_file), listen on 127.0.0.1, "
    "or set listen.insecure to true (--insecure) where the network is closed"
)


def _exposed(listen: Listen, *, fix: str) -> Iterator[Problem]:
    for name, listener in listen.listeners.items():
        asked = listener.tokens is not None or (listener.tls is not None and listener.tls.client_ca_file is not None)
        lacks = [
            *(["without encryption"] if listener.tls is None else []),
            *(["and nobody is asked who they are"] if not asked else []),
        ]
        if lacks and not listener.address.is_loopback:
            what = f"{listener.address} can be reached from other machines, {', '.join(lacks)}"
            yield Problem(where=f"listen.{name}", what=what, fix=fix)


_TITLES = {"grpc": "gRPC", "http": "HTTP", "control": "the control listener"}


def _shared_ports(listen: Listen) -> Iterator[Problem]:
    taken: dict[Address, str] = {}
    for name, listener in listen.listeners.items():
        address = listener.address
        if address.port and address in taken:
            what = f"{_TITLES[taken[address]]} and {_TITLES[name]} can't both listen on {address}"
            yield Problem(where=f"listen.{name}", what=what, fix="give them different ports")
        taken.setdefault(address, name)


def check_forward(forward: Forward, listen: Listen) -> None:
    """Raise SettingsError with all that is wrong with where requests are to be forwarded."""
    if forward.endpoint is None:
        return
    protocol = protocol_of("forward.endpoint", forward.endpoint, forward.protocol)
    problems = list(_problems(forward))
    listening = [(listener.address.host, listener.address.port) for listener in listen.listeners.values()]
    if is_own_address(forward.endpoint, protocol, listening):
        what = "it is our own listener, so requests would go round in a circle"
        problems.append(Problem(where="forward.endpoint", what=what, fix="name another endpoint, or listen on other ports"))
    if problems:
        raise SettingsError.of(problems)


def _problems(forward: Forward) -> Iterator[Problem]:
    if (forward.cert_file is None) is not (forward.key_file is None):
        yield Problem(where="forward.tls", what="cert_file and key_file belong together", fix="give both, or neither")
    has_tls = any(path is not None for path in (forward.ca_file, forward.cert_file, forward.key_file))
    if has_tls and not (forward.endpoint or "").startswith("https://"):
        yield Problem(where="forward.tls", what="the endpoint is without TLS", fix="begin forward.endpoint with https://")
    if forward.token_file is not None and "authorization" in forward.headers:
        what = "forward.headers has an authorization header, too"
        yield Problem(where="forward.token_file", what=what, fix="remove one of them")


def forward_oddities(forward: Forward) -> Iterator[Problem]:
    """Yield what a user should know of the settings and need not mend."""
    if forward.endpoint is None:
        return
    secret = forward.token_file is not None or "authorization" in forward.headers
    if secret and not forward.endpoint.startswith("https://"):
        what = "credentials are sent without encryption"
        yield Problem(where="forward.endpoint", what=what, fix="begin it with https://, unless the downstream is on this machine")
