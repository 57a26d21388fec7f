"""What ``forward`` looks like in the service file, and what is wrong with it although each value alone is right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

from pydantic import Field, PlainValidator

from otel_toolcall_eval.endpoint import OtlpProtocol, is_own_address, protocol_of
from otel_toolcall_eval.errors import Problem, SettingsError
from otel_toolcall_eval.settings.config_model import ConfigModel
from otel_toolcall_eval.settings.profile import Compression
from otel_toolcall_eval.settings.types import Duration, Flag, Name, SchemaOf, Size, choice, complaint, schema_of, wrong_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_toolcall_eval.settings.listeners import Listen
    from otel_toolcall_eval.settings.profile import Forward

_HEADER_NAME = re.compile(r"[a-z0-9_.-]+")  # what both gRPC and HTTP take
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_OURS = frozenset({"connection", "content-encoding", "content-length", "content-type", "host", "te", "transfer-encoding", "user-agent"})
_FIX = "write names with values, as in {x-tenant: agents}; in a variable x-tenant=agents,x-other=1"


def _headers(value: object) -> dict[str, str]:
    """Return headers by name in lower case. Complaints never show a value: it may be a credential."""
    if isinstance(value, str):
        value = _from_text(value)
    if not isinstance(value, dict):
        raise wrong_kind(value, "an object", _FIX)
    found: dict[str, str] = {}
    for given, text in value.items():
        name = str(given).lower()
        if not _HEADER_NAME.fullmatch(name) or name.endswith("-bin"):
            raise complaint(what="a name is not that of a header with text", fix=_FIX)
        if name in _OURS or name.startswith("grpc-"):
            raise complaint(what=f"{name} is set by ourselves", fix="remove it")
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            raise complaint(what=f"the value of {name} is not plain ASCII text", fix="put numbers in quotes, and encode what is not ASCII")
        found[name] = text.strip()
    return found


def _from_text(text: str) -> dict[str, str]:
    """Read headers as ``OTEL_EXPORTER_OTLP_HEADERS`` has them."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise complaint(what="a header has no value", fix=_FIX)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


Headers = Annotated[
    dict[str, str],
    PlainValidator(_headers),
    SchemaOf({"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "string"}]}),
]


class ForwardTlsModel(ConfigModel):
    """How the connection to the downstream is encrypted, for an endpoint that begins with https://."""

    ca_file: Name | None = Field(default=None, description="Certificates (PEM) that the downstream's is checked against.")
    cert_file: Name | None = Field(default=None, description="Our certificate (PEM), for a downstream that asks for one.")
    key_file: Name | None = Field(default=None, description="The key of our certificate (PEM), without a password.")


class ForwardModel(ConfigModel):
    """Where what is received is passed on to."""

    endpoint: Name | None = Field(default=None, description="URL of the downstream; without it nothing is passed on.")
    protocol: Annotated[OtlpProtocol, choice(OtlpProtocol), schema_of(OtlpProtocol)] | None = Field(
        default=None, description="How to speak to it; without it http/protobuf on port 4318, else grpc."
    )
    headers: Headers | None = Field(default=None, description="Headers that are sent along.")
    token_file: Name | None = Field(default=None, description="File of bearer tokens, one a line; the first is sent.")
    compression: Annotated[Compression, choice(Compression), schema_of(Compression)] | None = Field(
        default=None, description="none or gzip."
    )
    tls: ForwardTlsModel | None = Field(default=None, description="How the connection is encrypted.")
    timeout: Duration | None = Field(default=None, description="For one try.")
    queue_bytes: Size | None = Field(default=None, description="What may wait to be passed on; beyond it requests are refused.")
    max_elapsed: Duration | None = Field(default=None, description="How long one request is tried before it is dropped.")
    attach_to_root: Flag | None = Field(default=None, description="Hold root spans back until their verdict, and put it on them.")


def check_forward(forward: Forward, listen: Listen, *, workers: int) -> None:
    """Raise SettingsError with all that is wrong with where requests are to be passed on to."""
    if forward.endpoint is None:
        return
    protocol = protocol_of("forward.endpoint", forward.endpoint, forward.protocol)
    problems = list(_problems(forward))
    listening = [(listener.address.host, listener.address.port) for listener in listen.listeners.values()]
    if is_own_address(forward.endpoint, protocol, listening):
        what = "it is our own listener, so requests would go round in a circle"
        problems.append(Problem(where="forward.endpoint", what=what, fix="name another endpoint, or listen on other ports"))
    if forward.attach_to_root and workers > 1:
        what = "roots can't be held back where several processes judge (workers)"
        problems.append(
            Problem(where="forward.attach_to_root", what=what, fix="set workers: 1, or leave it off: verdicts go on a span of ours")
        )
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
        if forward.attach_to_root:
            yield Problem(where="forward.attach_to_root", what="it does nothing without forward.endpoint", fix="name an endpoint")
        return
    secret = forward.token_file is not None or "authorization" in forward.headers
    if secret and not forward.endpoint.startswith("https://"):
        what = "credentials are sent without encryption"
        yield Problem(where="forward.endpoint", what=what, fix="begin it with https://, unless the downstream is on this machine")
