from __future__ import annotations

from pathlib import Path

import pytest

from otel_toolcall_eval.exporters.otlp import (
    ExportSignal,
    ExportTarget,
    OtlpSettings,
    client_options,
    find_target,
    metric_exporter,
)
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.endpoint import OtlpProtocol, is_own_address

NOTHING = OtlpSettings()
FILE = OtlpSettings(endpoint="http://file:4317")
BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("settings", "environ", "endpoint", "protocol"),
    [
        pytest.param(FILE, {}, "http://file:4317", "grpc", id="file"),
        pytest.param(OtlpSettings(endpoint=" http://file:4317 "), {}, "http://file:4317", "grpc", id="blanks-around"),
        pytest.param(FILE, {BASE: "http://env:4317"}, "http://env:4317", "grpc", id="environment-before-file"),
        pytest.param(FILE, {BASE: ""}, "http://file:4317", "grpc", id="empty-is-unset"),
        pytest.param(NOTHING, {BASE: "http://env:4318"}, "http://env:4318/v1/traces", "http/protobuf", id="http-by-port"),
        pytest.param(NOTHING, {BASE: "http://env:4318/"}, "http://env:4318/v1/traces", "http/protobuf", id="slash-at-the-end"),
        pytest.param(NOTHING, {BASE: "https://env/otlp"}, "https://env/otlp", "grpc", id="no-port"),
        pytest.param(
            NOTHING,
            {BASE: "https://env/otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            "https://env/otlp/v1/traces",
            "http/protobuf",
            id="protocol-of-all",
        ),
        pytest.param(
            NOTHING,
            {BASE: "http://env:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
            "http://env:4318",
            "grpc",
            id="protocol-of-the-signal-first",
        ),
        pytest.param(
            NOTHING,
            {BASE: "http://env:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://own:4318/custom"},
            "http://own:4318/custom",
            "http/protobuf",
            id="own-endpoint-is-taken-as-it-is",
        ),
        pytest.param(
            OtlpSettings(endpoint="http://f:1", protocol="http/protobuf"), {}, "http://f:1/v1/traces", "http/protobuf", id="file-protocol"
        ),
        pytest.param(NOTHING, {BASE: "http://[::1]:4318"}, "http://[::1]:4318/v1/traces", "http/protobuf", id="ipv6"),
    ],
)
def test_target_is_what_is_set_first(settings: OtlpSettings, environ: dict[str, str], endpoint: str, protocol: str) -> None:
    target = find_target(ExportSignal.TRACES, settings, environ)
    assert target is not None
    assert (target.endpoint, target.protocol.value) == (endpoint, protocol)


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        pytest.param(NOTHING, {}, id="nothing-is-named"),
        pytest.param(OtlpSettings(endpoint=" "), {BASE: " "}, id="blanks"),
        pytest.param(NOTHING, {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://env:4317"}, id="another-signal-only"),
        pytest.param(FILE, {"OTEL_TRACES_EXPORTER": "None"}, id="switched-off"),
        pytest.param(FILE, {"OTEL_SDK_DISABLED": "TRUE"}, id="sdk-disabled"),
    ],
)
def test_nothing_is_sent_unless_an_endpoint_is_named(settings: OtlpSettings, environ: dict[str, str]) -> None:
    assert find_target(ExportSignal.TRACES, settings, environ) is None


@pytest.mark.parametrize(
    ("settings", "environ", "words"),
    [
        pytest.param(NOTHING, {BASE: "http://:4317"}, BASE, id="no-host"),
        pytest.param(NOTHING, {BASE: "http://host:port"}, BASE, id="port-is-no-number"),
        pytest.param(NOTHING, {BASE: "http://[::1"}, BASE, id="brackets"),
        pytest.param(NOTHING, {BASE: "ftp://host"}, BASE, id="scheme"),
        pytest.param(OtlpSettings(endpoint="http://host:99999"), {}, "export.otlp.endpoint", id="port-out-of-range"),
        pytest.param(FILE, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_PROTOCOL", id="json"),
        pytest.param(OtlpSettings(endpoint="http://f:1", protocol="udp"), {}, "export.otlp.protocol", id="protocol-of-the-file"),
        pytest.param(OtlpSettings(endpoint="host:4318"), {}, "'host:4318' is no endpoint", id="http-without-scheme"),
        pytest.param(NOTHING, {BASE: "env:4317"}, "write it like http://collector:4317", id="grpc-without-scheme"),
        pytest.param(NOTHING, {BASE: "http://bob:secret@env:xx"}, "'http://env:xx' is no endpoint", id="credentials-are-not-shown"),
    ],
)
def test_endpoint_that_cannot_be_used_is_refused_by_name(settings: OtlpSettings, environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        find_target(ExportSignal.TRACES, settings, environ)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def _target(endpoint: str, protocol: OtlpProtocol = OtlpProtocol.GRPC, signal: ExportSignal = ExportSignal.TRACES) -> ExportTarget:
    return ExportTarget(signal=signal, endpoint=endpoint, protocol=protocol, origin="test")


@pytest.mark.parametrize(
    ("target", "listening", "expected"),
    [
        pytest.param(_target("http://127.0.0.1:4317"), ("127.0.0.1", 4317), True, id="equal"),
        pytest.param(_target("http://localhost:4317"), ("127.0.0.1", 4317), True, id="localhost"),
        pytest.param(_target("localhost:4317"), ("0.0.0.0", 4317), True, id="every-address"),  # noqa: S104 - compared, not bound
        pytest.param(_target("http://[::1]:4317"), ("::", 4317), True, id="ipv6"),
        pytest.param(_target("localhost"), ("127.0.0.1", 4317), True, id="default-port-grpc"),
        pytest.param(_target("http://sidecar:4317"), ("sidecar", 4317), True, id="equal-names"),
        pytest.param(_target("http://127.0.0.1/v1/traces", OtlpProtocol.HTTP), ("127.0.0.1", 80), True, id="default-port-http"),
        pytest.param(_target("https://127.0.0.1/v1/traces", OtlpProtocol.HTTP), ("127.0.0.1", 443), True, id="default-port-https"),
        pytest.param(_target("http://127.0.0.1:4319"), ("127.0.0.1", 4317), False, id="another-port"),
        pytest.param(_target("http://collector:4317"), ("127.0.0.1", 4317), False, id="another-host"),
        pytest.param(_target("http://10.0.0.7:4317"), ("127.0.0.1", 4317), False, id="another-address"),
    ],
)
def test_own_address_is_known(target: ExportTarget, listening: tuple[str, int], expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert is_own_address(target.endpoint, target.protocol, [listening]) is expected


@pytest.mark.parametrize("protocol", list(OtlpProtocol))
def test_environment_that_the_exporter_refuses_is_a_settings_error(protocol: OtlpProtocol, monkeypatch: pytest.MonkeyPatch) -> None:
    # gRPC exporters refuse an unknown compression; those over HTTP warn of it, and refuse a credential provider that is not there.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "zip")
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "nobody")
    with pytest.raises(SettingsError, match=r"OTLP exporter of \w+ \(test\): it can't be built: .*; check the OTEL_EXPORTER_OTLP_"):
        metric_exporter(_target("http://127.0.0.1:4318/v1/x", protocol, ExportSignal.METRICS))


def test_options_of_the_signal_go_before_those_of_all() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=all",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "X-Tenant=logs,authorization=Bearer%20abc",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "GZIP",
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "none",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2.5",
        "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT": "",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "/etc/ca.pem",
        "OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY": "/etc/key.pem",
        "OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE": "/etc/cert.pem",
    }
    logs, traces = (client_options(signal, environ) for signal in (ExportSignal.LOGS, ExportSignal.TRACES))
    assert dict(logs.headers) == {"x-tenant": "logs", "authorization": "Bearer abc"}
    assert (logs.gzip, logs.timeout_seconds, logs.ca_file) == (True, 2.5, Path("/etc/ca.pem"))
    assert (logs.cert_file, logs.key_file) == (Path("/etc/cert.pem"), Path("/etc/key.pem"))
    assert (dict(traces.headers), traces.gzip, traces.key_file) == ({"x-tenant": "all"}, False, None)
    assert "abc" not in repr(logs)


def test_options_have_defaults() -> None:
    options = client_options(ExportSignal.LOGS, {})
    assert (dict(options.headers), options.gzip, options.timeout_seconds, options.ca_file) == ({}, False, 10.0, None)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        pytest.param({"OTEL_EXPORTER_OTLP_COMPRESSION": "zip"}, "OTLP_COMPRESSION: 'zip' is no compression", id="compression"),
        pytest.param({"OTEL_EXPORTER_OTLP_LOGS_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT: 'soon' is no time-out", id="no-number"),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_HEADERS": "authorization: Bearer s3cret"}, "OTLP_HEADERS: this is no list of headers", id="colon"
        ),
        pytest.param({"OTEL_EXPORTER_OTLP_LOGS_HEADERS": "a=b,s3cret"}, "LOGS_HEADERS: this is no list of headers", id="no-value"),
        pytest.param({"OTEL_EXPORTER_OTLP_TIMEOUT": "0"}, "'0' is no time-out", id="no-time"),
        pytest.param({"OTEL_EXPORTER_OTLP_TIMEOUT": "inf"}, "'inf' is no time-out", id="endless"),
    ],
)
def test_option_that_cannot_be_used_is_refused_by_name(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        client_options(ExportSignal.LOGS, environ)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(("text", "seconds"), [("10", 10.0), ("999", 999.0), ("10000", 10.0), ("2500", 2.5)])
def test_timeout_is_in_seconds_unless_it_can_only_be_milliseconds(text: str, seconds: float) -> None:
    assert client_options(ExportSignal.LOGS, {"OTEL_EXPORTER_OTLP_TIMEOUT": text}).timeout_seconds == seconds
