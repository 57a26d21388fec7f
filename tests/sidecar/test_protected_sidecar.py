"""A sidecar process behind TLS and tokens, as an operator meets it: exporters, renewed files, commands, and no secret anywhere."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
import trustme
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_toolcall_eval.cli.parser import run
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.sidecar.build_receivers import Protection
from otel_toolcall_eval.sidecar.sidecar import Sidecar
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.certificates import Client, Files, bearer, chain_of, write_secret
from tests.receivers.receivers import JSON, PROTOBUF
from tests.receivers.test_receivers import ended_spans
from tests.sidecar.test_sidecar import CRITERIA, otlp, otlp_span, verdicts
from tests.sidecar_process import RunningSidecar, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opentelemetry.sdk.trace.export import SpanExporter

PREFIX = "OTEL_TOOLCALL_EVAL_LISTEN_"
TOKEN, NEXT_TOKEN = "token-of-today-0123456789", "token-of-tomorrow-0123456789"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(folder=tmp_path)
    found.issue()
    found.tokens(f"{TOKEN}\n")
    return found


@pytest.fixture(autouse=True)
def no_authorities_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one of these set, the library below the HTTP exporter does not look at the exporter's own authority."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def protection(files: Files) -> dict[str, str]:
    found = {"TLS_CERT_FILE": files.cert_file, "TLS_KEY_FILE": files.key_file, "TOKEN_FILE": files.token_file}
    if files.client_ca is not None:
        found["TLS_CLIENT_CA_FILE"] = files.client_ca_file
    return {f"{PREFIX}{name}": str(path) for name, path in found.items()}


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextmanager
def exporter(
    kind: str, sidecar: RunningSidecar, files: Files, token: str | None, shows: trustme.LeafCert | None = None
) -> Iterator[SpanExporter]:
    """Yield an exporter of the SDK that trusts the authority, and shows token and certificate."""
    headers = {} if token is None else dict(bearer(token))
    made: SpanExporter
    if kind == "grpc":
        key, chain = (None, None) if shows is None else (shows.private_key_pem.bytes(), chain_of(shows))
        credentials = grpc.ssl_channel_credentials(files.ca.cert_pem.bytes(), key, chain)
        made = GrpcExporter(endpoint=f"https://{sidecar.grpc}", credentials=credentials, headers=headers, timeout=PATIENCE_SECONDS)
    else:
        cert = files.folder / "client.pem"
        if shows is not None:
            write_secret(cert, shows.private_key_and_cert_chain_pem.bytes())
        made = HttpExporter(
            endpoint=f"https://{sidecar.http}/v1/traces",
            certificate_file=str(files.ca_file),
            client_certificate_file=None if shows is None else str(cert),
            headers=headers,
            timeout=PATIENCE_SECONDS,
        )
    try:
        yield made
    finally:
        made.shutdown()


def exported(kind: str, sidecar: RunningSidecar, files: Files, token: str | None, shows: trustme.LeafCert | None = None) -> bool:
    with exporter(kind, sidecar, files, token, shows) as made:
        return made.export(ended_spans()) is SpanExportResult.SUCCESS


KINDS = pytest.mark.parametrize("kind", ["grpc", "http/protobuf"])


@KINDS
def test_the_sdks_exporter_delivers_with_certificate_and_token_and_not_without(kind: str, files: Files) -> None:
    theirs = trustme.CA()
    files.trust_clients_of(theirs)
    known = theirs.issue_cert("agent")
    with running_sidecar(environ=protection(files)) as sidecar:
        assert exported(kind, sidecar, files, TOKEN, known)
        assert verdicts(sidecar, 1)[0]["label"] == "unbound"
        assert not exported(kind, sidecar, files, None, known)
        assert not exported(kind, sidecar, files, NEXT_TOKEN, known)
        page = Client(trusts=files.ca, shows=known, headers=bearer(TOKEN)).ask(port_of(sidecar.http), "GET", "/metrics").body.decode()
        assert sidecar.terminate() == 0
    transport = "grpc" if kind == "grpc" else "http/protobuf"
    (refused,) = [line for line in page.splitlines() if line.startswith("toolcall_eval_requests_rejected_total{")]
    assert '"unauthenticated"' in refused
    assert f'"{transport}"' in refused
    assert float(refused.rpartition(" ")[2]) == 2


@pytest.mark.slow
@KINDS
def test_certificate_and_token_are_renewed_without_a_restart(kind: str, files: Files) -> None:
    with running_sidecar(environ=protection(files)) as sidecar:
        assert exported(kind, sidecar, files, TOKEN)
        files.token_file.write_text(f"{TOKEN}\n{NEXT_TOKEN}\n", encoding="utf-8")
        wait_for(lambda: exported(kind, sidecar, files, NEXT_TOKEN), "the second token")
        assert exported(kind, sidecar, files, TOKEN)
        files.ca = trustme.CA()
        files.issue()
        port = port_of(sidecar.http)
        wait_for(lambda: served(Client(trusts=files.ca), port), "the new certificate")
        files.token_file.write_text(f"{NEXT_TOKEN}\n", encoding="utf-8")
        wait_for(
            lambda: Client(trusts=files.ca, headers=bearer(TOKEN)).ask(port, "GET", "/metrics").status == 401, "the end of the first token"
        )
        assert exported(kind, sidecar, files, NEXT_TOKEN)
    assert "files were read again" in "".join(sidecar.log)


def served(client: Client, port: int) -> bool:
    try:
        return client.ask(port, "GET", "/livez").status == 200
    except (OSError, http.client.HTTPException):
        return False


def test_criteria_are_bound_by_trace_id_before_and_after_the_trace_was_looked_at(files: Files, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(CRITERIA.format(name="named", operator="=").replace("match: all", "match: named"), encoding="utf-8")
    client = Client(trusts=files.ca, headers=bearer(TOKEN))

    def bind(trace: int, *names: str) -> int:
        path = f"/v1/traces/{trace:032x}/criteria"
        return client.ask(port_of(sidecar.control), "PUT", path, json.dumps({"criteria": names}).encode(), Content_Type=JSON).status

    def send(trace: int) -> None:
        body = json.dumps(otlp(otlp_span(trace, 1))).encode()
        assert client.ask(port_of(sidecar.http), "POST", "/v1/traces", body, Content_Type=JSON).status == 200

    with running_sidecar("--criteria", str(policy), "--control", "127.0.0.1:0", environ=protection(files)) as sidecar:
        assert bind(1, "named") == 204
        send(1)
        (before,) = verdicts(sidecar, 1)
        send(2)
        (alone,) = verdicts(sidecar, 1)
        assert bind(2, "named") == 204
        (after,) = verdicts(sidecar, 1)
        assert (bind(3, "nmaed"), bind(0, "named")) == (422, 400)
        assert Client(trusts=files.ca).ask(port_of(sidecar.control), "PUT", f"/v1/traces/{4:032x}/criteria").status == 401
        assert f"control   PUT https://{sidecar.control}/v1/traces/TRACE_ID/criteria binds criteria to a trace" in "".join(sidecar.log)
    assert (before["criteria"], before["label"]) == ("named", "pass")
    assert (alone["label"], after["criteria"], after["label"], after["trace_id"]) == ("unbound", "named", "pass", f"{2:032x}")


def test_no_control_listener_unless_it_is_asked_for() -> None:
    with running_sidecar() as sidecar:
        assert sidecar.control == ""
        wait_for(lambda: bool(sidecar.log), "the greeting")
    assert "control" not in "".join(sidecar.log)


@pytest.mark.slow
def test_no_secret_leaves_in_any_way(files: Files) -> None:
    """Right and wrong tokens and the key: not in log lines, answers, metrics or pages, also when their files break."""
    key = files.key_file.read_text(encoding="utf-8")
    wrong = "wrong-token-canary-0123456789"
    said: list[bytes] = []
    with running_sidecar("--control", "127.0.0.1:0", environ={**protection(files), "OTEL_TOOLCALL_EVAL_LOG_LEVEL": "debug"}) as sidecar:
        http, control = port_of(sidecar.http), port_of(sidecar.control)
        for token in (TOKEN, wrong):
            client = Client(trusts=files.ca, headers=bearer(token))
            for port, method, path in (
                (http, "GET", "/metrics"),
                (http, "GET", "/debug/traces"),
                (http, "GET", "/readyz"),
                (http, "POST", "/v1/traces"),
                (http, "GET", "/nowhere"),
                (control, "PUT", f"/v1/traces/{1:032x}/criteria"),
            ):
                for content_type in (JSON, PROTOBUF):
                    reply = client.ask(port, method, path, b"\xff", Content_Type=content_type)
                    said.append(reply.body + str(dict(reply.headers)).encode())
            called = client.call(port_of(sidecar.grpc), b"\xff")
            said.append(f"{called.details} {dict(called.trailers)}".encode())
        write_secret(files.token_file, f"{TOKEN} {NEXT_TOKEN}\n".encode())
        write_secret(files.key_file, key.encode()[:-60])
        wait_for(lambda: "".join(sidecar.log).count("could not be read again") == 2, "the complaints about both files")
        said.append(Client(trusts=files.ca, headers=bearer(TOKEN)).ask(http, "GET", "/metrics").body)
        sidecar.terminate()
    everything = b"".join(said) + "".join(sidecar.log).encode() + json.dumps(sidecar.drained()).encode()
    assert b"unauthenticated" in everything
    for secret in (TOKEN, NEXT_TOKEN, wrong, *key.splitlines()[1:-1]):
        assert secret.encode() not in everything


def test_commands_reach_a_protected_sidecar_by_its_settings_and_by_options(
    files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = trustme.CA()
    files.trust_clients_of(theirs)
    shows = theirs.issue_cert("operator")
    cert, key = files.folder / "me.crt", write_secret(files.folder / "me.key", shows.private_key_pem.bytes())
    cert.write_bytes(chain_of(shows))
    mine = ["--cert-file", str(cert), "--key-file", str(key)]
    patient = ["--timeout", str(PATIENCE_SECONDS)]
    with running_sidecar(environ=protection(files)) as sidecar:
        with monkeypatch.context() as environ:
            for name, value in {**protection(files), f"{PREFIX}HTTP": sidecar.http}.items():
                environ.setenv(name, value)
            assert run(["traces", *mine, *patient, "--format", "json"]) == 0
            # Health is checked without reading the tokens, which the checker may not be let to.
            environ.setenv(f"{PREFIX}TOKEN_FILE", "not/readable")
            environ.setenv(f"{PREFIX}TLS_CERT_FILE", "being/renewed")
            wait_for(lambda: run(["healthcheck", *mine, *patient]) == 0, "readiness")
            environ.setenv(f"{PREFIX}TLS_CERT_FILE", str(key.with_name("client-ca.crt")))  # another's certificate gets no token
            environ.setenv(f"{PREFIX}TOKEN_FILE", str(files.token_file))
            with pytest.raises(SettingsError, match="its certificate is not trusted"):
                run(["traces", *mine, *patient])
            capsys.readouterr()
        url = ["--url", f"https://localhost:{port_of(sidecar.http)}"]
        trusts, token = ["--ca-file", str(files.ca_file)], ["--token-file", str(files.token_file)]
        assert run(["traces", *url, *mine, *trusts, *token, *patient, "--format", "json"]) == 0
        assert run(["healthcheck", *url, *mine, *trusts, *patient]) == 0
        assert capsys.readouterr().err == ""
        for options, words in (
            ([*mine, *trusts], "it asks for a valid token; name a file that holds one with --token-file"),
            ([*mine, *token], "its certificate is not trusted: unable to get local issuer certificate; name its authority with --ca-file"),
            ([*trusts, *token], "if it asks clients for a certificate, show one with --cert-file"),
            ([*mine[:2], *trusts], "a certificate and its key go together; give --cert-file and --key-file"),
            (
                [*mine, *trusts, "--token-file", "no-such-file"],
                "--token-file: no-such-file: the file can't be read (No such file or directory)",
            ),
            ([*mine, "--ca-file", str(key)], "no certificates can be read from it"),
            (["--cert-file", str(files.cert_file), "--key-file", str(key), *trusts], "certificate and key can't be used"),
        ):
            with pytest.raises(SettingsError) as refused:
                run(["traces", *url, *options, *patient])
            assert words in str(refused.value)
        assert run(["healthcheck", "--url", f"http://{sidecar.http}", *patient]) == 1
        assert "no answer" in capsys.readouterr().err


def test_failed_handshakes_are_counted_and_write_one_line_of_json(files: Files) -> None:
    with running_sidecar(environ={**protection(files), "OTEL_TOOLCALL_EVAL_LOG_FORMAT": "json"}) as sidecar:
        for address in (sidecar.grpc, sidecar.http):
            for trusts in (trustme.CA(), None):
                assert not served(Client(trusts=trusts), port_of(address))
        with_token = Client(trusts=files.ca, headers=bearer(TOKEN))
        assert with_token.call(port_of(sidecar.grpc), b"").code == "OK"

        def counted() -> list[str]:
            page = with_token.ask(port_of(sidecar.http), "GET", "/metrics").body.decode()
            return [line for line in page.splitlines() if line.startswith("toolcall_eval_requests_rejected_total{")]

        wait_for(lambda: [line.rpartition(" ")[2] for line in counted()] == ["2.0"], "the count of both")
        assert 'reason="tls"' in counted()[0]
        assert sidecar.terminate() == 0
    # The core of older gRPC (1.66) writes lines of its own about handshakes, past all logging.
    (_, told) = lines = [json.loads(line) for line in sidecar.log if line.startswith("{")]
    assert [line["level"] for line in lines] == ["info", "warning"]
    assert (told["listener"], told["reason"]) == ("otlp-http", "TLSV1_ALERT_UNKNOWN_CA")


def break_key(files: Files) -> None:
    write_secret(files.key_file, trustme.CA().issue_cert("localhost").private_key_pem.bytes())


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(break_key, "listen.tls.key_file: {key}: the key does not belong to the certificate", id="key"),
        pytest.param(lambda files: files.cert_file.unlink(), "listen.tls.cert_file: {cert}: the file can't be read", id="certificate"),
        pytest.param(lambda files: files.token_file.write_text(""), "listen.token_file: {tokens}: the file holds no token", id="tokens"),
    ],
)
def test_a_sidecar_does_not_start_on_files_that_can_not_be_used(
    files: Files, damage: Callable[[Files], object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(files)
    for name, value in protection(files).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        Sidecar(load_settings(None, os.environ, Deployment.SIDECAR))
    assert str(refused.value).startswith(said.format(key=files.key_file, cert=files.cert_file, tokens=files.token_file))


SETTINGS = """\
listen:
  tls: {cert_file: tls.crt, key_file: tls.key}
  token_file: tokens
  grpc: {address: 127.0.0.1:0, tls: {cert_file: other.crt, key_file: tls.key}}
forward:
  endpoint: https://127.0.0.1:1
  token_file: forward-tokens
  tls: {ca_file: ca.crt}
"""


def test_check_says_of_all_files_what_serve_would_say(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    settings = files.folder / "sidecar.yaml"
    settings.write_text(SETTINGS)
    (files.folder / "other.crt").write_bytes(files.cert_file.read_bytes())
    write_secret(files.folder / "forward-tokens", b"short\n")
    assert run(["check", str(settings)]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out

    files.token_file.chmod(0o644)
    assert run(["check", str(settings)]) == 0
    assert f"listen.token_file: {files.token_file}: every user of this machine can read this file" in capsys.readouterr().err.replace(
        "\n", " "
    )

    break_key(files)
    files.token_file.write_text("two words\n")
    (files.folder / "forward-tokens").unlink()
    assert run(["check", str(settings), "--format", "json"]) == 2
    found = [f"{one['where']}: {one['what']}; {one['fix']}" for one in json.loads(capsys.readouterr().out)["errors"]]
    with pytest.raises(SettingsError) as refused:
        Protection(load_settings(settings, {}, Deployment.SIDECAR).listen)
    of_listeners = [str(problem) for problem in refused.value.problems]
    assert [one.partition(":")[0] for one in of_listeners] == ["listen.grpc.tls.key_file", "listen.tls.key_file", "listen.token_file"]
    assert found[:3] == of_listeners
    assert [one.partition(" (")[0] for one in found[3:]] == [f"forward.token_file: {files.folder}/forward-tokens: the file can't be read"]


def test_check_says_what_it_can_not_look_at_without_the_sidecars_extra(files: Files) -> None:
    settings = files.folder / "sidecar.yaml"
    settings.write_text("listen: {token_file: none}\n")
    without = "import sys; sys.modules['aiohttp'] = None; from otel_toolcall_eval.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", without, "check", str(settings), "--format", "json"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    (warning,) = json.loads(ended.stdout)["warnings"]
    assert warning["what"] == "certificates, keys and tokens were not looked at: aiohttp is not installed"


@pytest.mark.slow
def test_an_open_listener_is_said_loudly_and_a_protected_one_needs_no_leave(files: Files) -> None:
    with running_sidecar("--insecure", "--http", "0.0.0.0:0") as sidecar:
        wait_for(lambda: "can be reached from other machines" in "".join(sidecar.log), "the warning")
    assert "warning: listen.http: 0.0.0.0:0 can be reached from other machines, without encryption, and nobody is asked" in "".join(
        sidecar.log
    )
    with running_sidecar("--http", "0.0.0.0:0", environ=protection(files)) as sidecar:
        port = port_of(sidecar.http)
        assert Client(trusts=files.ca, headers=bearer(TOKEN)).ask(port, "GET", "/metrics").status == 200
        wait_for(lambda: "next" in "".join(sidecar.log), "the greeting")
    log = "".join(sidecar.log)
    assert "warning" not in log
    assert f"OTLP/HTTP on https://127.0.0.1:{port}" in log
    assert "reached   by every name and address of this machine: http\n" in log
    assert "0.0.0.0" not in log  # noqa: S104 - nobody can be sent there
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT=https://{sidecar.grpc}" in log
    assert "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN" in log


@pytest.mark.parametrize("url", ["ftp://x", "http://[", "http://127.0.0.1:99999", "x"])
def test_an_url_that_is_none_says_what_to_do(url: str) -> None:
    with pytest.raises(SettingsError, match="is no HTTP address"):
        run(["healthcheck", "--url", url])
    with pytest.raises(SettingsError, match="it is not above 0"):
        run(["healthcheck", "--url", "http://127.0.0.1:9", "--timeout", "0"])
