"""Settings of what is passed on: read from file and environment, checked together, and never shown with their secrets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.settings.endpoint import OtlpProtocol
from otel_toolcall_eval.settings.service import Compression, Forward
from tests.settings.loading import setting_complaints, settings

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "OTEL_TOOLCALL_EVAL_FORWARD_"
SECOND_NS = 1_000_000_000
WHOLE = """
forward:
  endpoint: https://collector:4317
  protocol: http/protobuf
  headers: {X-Tenant: a, x-other: "1"}
  token_file: secrets/token
  compression: gzip
  tls: {ca_file: ca.pem, cert_file: cert.pem, key_file: /keys/key.pem}
  timeout: 3s
  queue_bytes: 1MiB
  max_elapsed: 1m
"""


def test_everything_can_be_set_and_files_are_relative_to_the_settings(tmp_path: Path) -> None:
    assert settings(WHOLE, folder=tmp_path).forward == Forward(
        endpoint="https://collector:4317",
        protocol=OtlpProtocol.HTTP,
        headers={"x-tenant": "a", "x-other": "1"},
        token_file=tmp_path / "secrets/token",
        compression=Compression.GZIP,
        ca_file=tmp_path / "ca.pem",
        cert_file=tmp_path / "cert.pem",
        key_file=Path("/keys/key.pem"),
        timeout_ns=3 * SECOND_NS,
        queue_bytes=1 << 20,
        max_elapsed_ns=60 * SECOND_NS,
    )


def test_variables_set_the_same() -> None:
    environ = {
        "ENDPOINT": "https://a:4317",
        "HEADERS": " X-Tenant=a%20b , x-other=1,",
        "TLS_CA_FILE": "ca.pem",
        "ATTACH_TO_ROOT": "true",
        "COMPRESSION": "gzip",
    }
    assert settings(environ={PREFIX + name: value for name, value in environ.items()}).forward == Forward(
        endpoint="https://a:4317",
        headers={"x-tenant": "a b", "x-other": "1"},
        ca_file=Path("ca.pem"),
        compression=Compression.GZIP,
    )


def test_nothing_is_passed_on_unless_it_is_asked_for() -> None:
    assert settings().forward == Forward()
    assert settings().forward.endpoint is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("endpoint: collector:4317", "forward.endpoint: 'collector:4317' is no endpoint; write it like", id="no scheme"),
        pytest.param("endpoint: http://user:s3cret@a:b", "forward.endpoint: 'http://a:b' is no endpoint", id="no port"),
        pytest.param("endpoint: http://127.0.0.1:4317", "forward.endpoint: it is our own listener", id="loop over gRPC"),
        pytest.param("endpoint: http://localhost:4318", "forward.endpoint: it is our own listener", id="loop over HTTP"),
        pytest.param(
            "{endpoint: 'https://a', tls: {cert_file: a}}", "forward.tls: cert_file and key_file belong together", id="certificate alone"
        ),
        pytest.param("{endpoint: 'http://a', tls: {ca_file: a}}", "forward.tls: the endpoint is without TLS", id="no TLS"),
        pytest.param(
            "{endpoint: 'https://a', token_file: t, headers: {Authorization: s3cret}}",
            "forward.token_file: forward.headers has an authorization header, too",
            id="two credentials",
        ),
        pytest.param("headers: [s3cret]", "forward.headers: this is a list, not an object", id="headers as a list"),
        pytest.param("headers: {'a b': s3cret}", "forward.headers: a name is not that of a header with text", id="no name"),
        pytest.param("headers: {a-bin: s3cret}", "forward.headers: a name is not that of a header with text", id="binary"),
        pytest.param("headers: {Content-Type: s3cret}", "forward.headers: content-type is set by ourselves", id="ours"),
        pytest.param("headers: {grpc-x: s3cret}", "forward.headers: grpc-x is set by ourselves", id="gRPC's"),
        pytest.param('headers: {x: "s3cret\\n"}', "forward.headers: the value of x is not plain ASCII text", id="line end"),
        pytest.param("headers: {x: 5}", "forward.headers: the value of x is not plain ASCII text", id="number"),
        pytest.param("headers: s3cret", "forward.headers: a header has no value", id="text without value"),
        pytest.param("tls: {ca: a}", "forward.tls.ca: unknown key 'ca'", id="unknown"),
        pytest.param("compression: zstd", "forward.compression: 'zstd' is not known here", id="compression"),
    ],
)
def test_what_is_wrong_is_told_without_secrets(tmp_path: Path, text: str, expected: str) -> None:
    told = "\n".join(setting_complaints(tmp_path, f"forward: {text if text.startswith('{') else '{' + _quoted(text) + '}'}"))
    assert expected in told
    assert "s3cret" not in told


def _quoted(text: str) -> str:
    key, _, value = text.partition(": ")
    return f"{key}: '{value}'" if "://" in value or value.endswith("4317") else text


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            {"ENDPOINT": "http://a:4317", "HEADERS": "authorization=s3cret"},
            ["forward.endpoint: credentials are sent without encryption; begin it with https://, unless the downstream is on this machine"],
        ),
        ({"ENDPOINT": "https://a:4317", "HEADERS": "authorization=s3cret"}, []),
    ],
)
def test_what_is_odd_is_warned_about(environ: Mapping[str, str], expected: list[str]) -> None:
    found = settings(environ={PREFIX + name: value for name, value in environ.items()})
    assert [str(warning) for warning in found.warnings] == expected
    assert "s3cret" not in repr(found)
