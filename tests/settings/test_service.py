"""Settings: defaults, then the file, then the environment; and what is refused before anything starts."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from otel_toolcall_eval.engine.buffer.completion import IN_PROCESS_POLICY, CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.span_kinds import RootCondition
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.criteria_file import CriteriaSource
from otel_toolcall_eval.settings.endpoint import OtlpProtocol
from otel_toolcall_eval.settings.patterns import compile_pattern
from otel_toolcall_eval.settings.service import (
    Deployment,
    Emit,
    Export,
    Intake,
    JournalSettings,
    JournalSync,
    Listen,
    Listener,
    Log,
    LogFormat,
    LogLevel,
    Redact,
    Settings,
    ShownValues,
    Status,
    TlsFiles,
    TokenFile,
)
from otel_toolcall_eval.settings.service_file import SINGLE_VARIABLES, load_settings
from otel_toolcall_eval.settings.types import Address
from tests.settings.loading import setting_complaints, settings, write

SECOND_NS = 1_000_000_000
MIB = 1024**2
PREFIX = "OTEL_TOOLCALL_EVAL_"
PLACE = "sidecar.yaml:1: explain.redact"
ORIGINS_FIX = "list origins as browsers send them, as in https://app.example.com or http://localhost:3000; * alone is any"
PATTERNS_FIX = "list regular expressions that RE2 takes, as in ['[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}']"


def test_the_sidecars_defaults_are_the_designs() -> None:
    assert load_settings(None, {}, Deployment.SIDECAR) == Settings(
        listen=Listen(
            grpc=Listener(address=Address(host="127.0.0.1", port=4317)),
            http=Listener(address=Address(host="127.0.0.1", port=4318)),
            control=None,
            allowed_origins=frozenset(),
            insecure=False,
        ),
        completion=CompletionPolicy(
            wait_after_root_ns=10 * SECOND_NS,
            wait_after_root_max_ns=60 * SECOND_NS,
            idle_timeout_ns=300 * SECOND_NS,
            trace_timeout_ns=3600 * SECOND_NS,
            late_span_window_ns=60 * SECOND_NS,
            max_revisions=3,
        ),
        shutdown_timeout_ns=10 * SECOND_NS,
        buffer=BufferLimits(
            num_traces=100_000,
            limit_bytes=256 * MIB,
            maximum_trace_size_bytes=8 * MIB,
            span_limit=10_000,
            decisions=1_000_000,
            decisions_ns=3600 * SECOND_NS,
        ),
        intake=Intake(max_request_bytes=64 * MIB, queue_bytes=64 * MIB),
        journal=JournalSettings(path=None, sync=JournalSync.INTERVAL),
        export=Export(enabled=True, endpoint=None, protocol=None),
        status=Status(enabled=True, traces=1000, limit_bytes=16 * MIB, path=None, max_age_ns=168 * 3600 * SECOND_NS),
        emit=Emit(metrics=True, events=True, spans=True),
        show_values=ShownValues.OFF,
        redact=Redact(keys=(), patterns=(), defaults=True),
        log=Log(level=LogLevel.INFO, format=LogFormat.TEXT),
    )


def test_in_process_less_is_waited_for_and_less_is_held() -> None:
    found = load_settings(None, {}, Deployment.IN_PROCESS)
    assert (found.completion.wait_after_root_ns, found.completion.wait_after_root_max_ns) == (0, 30 * SECOND_NS)
    assert (found.buffer.num_traces, found.buffer.limit_bytes) == (10_000, 64 * MIB)
    assert found.shutdown_timeout_ns == 5 * SECOND_NS


def test_the_cores_own_defaults_are_the_same() -> None:
    sidecar, in_process = (load_settings(None, {}, profile) for profile in (Deployment.SIDECAR, Deployment.IN_PROCESS))
    assert (sidecar.completion, in_process.completion) == (CompletionPolicy(), IN_PROCESS_POLICY)
    assert sidecar.buffer == BufferLimits()


WHOLE = """\
criteria:
  - weather.yaml
  - {path: criteria/shop, services: [shop, shop-canary]}
  - {path: /etc/criteria, services: bank}
dialects: [mine.yaml]
listen:
  grpc: "[::1]:5317"
  http:
    address: 10.0.0.1:5318
    tls: {cert_file: own.pem, key_file: own.key}
    token_file: own
    cors: {allowed_origins: ["https://a.example", "http://localhost:3000"]}
  control: localhost:5319
  tls: {cert_file: tls/all.pem, key_file: /run/all.key, client_ca_file: ca.pem}
  token_file: all
  insecure: true
completion:
  decision_wait_after_root_received: 2s
  decision_wait_after_root_max: 3s
  idle_timeout: 4m
  trace_timeout: 5h
  late_span_window: 0
  max_revisions: 0
  scope: agent_invocation
  root: {name: run, attributes: {kind: agent, level: 1, ours: true}}
  shutdown_timeout: 500ms
limits:
  num_traces: 1
  limit_mib: 2
  maximum_trace_size_bytes: 3KiB
  span_limit: 4
  decision_cache_size: 5
  decision_cache_ttl: 6
  max_request_bytes: 7MiB
  queue_bytes: 8MiB
journal: {path: state/journal.db, sync: ack}
export: {otlp: {endpoint: "http://collector:4318", protocol: http/protobuf}}
status: {enabled: false, traces: 9, limit_mib: 10, path: state/status.db, max_age: 1h}
emit: {metrics: false, events: false, spans: false}
explain: {values: truncate, redact: {keys: [iban], patterns: ['KD-[0-9]+'], defaults: false}}
log: {level: debug, format: json}
"""


def test_every_setting_of_the_file_arrives(tmp_path: Path) -> None:
    shared_tls = TlsFiles(
        setting="listen.tls", cert_file=tmp_path / "tls/all.pem", key_file=Path("/run/all.key"), client_ca_file=tmp_path / "ca.pem"
    )
    shared_tokens = TokenFile(setting="listen.token_file", path=tmp_path / "all")
    assert settings(WHOLE, folder=tmp_path) == Settings(
        criteria=(
            CriteriaSource(path=tmp_path / "weather.yaml"),
            CriteriaSource(path=tmp_path / "criteria/shop", services=frozenset({"shop", "shop-canary"})),
            CriteriaSource(path=Path("/etc/criteria"), services=frozenset({"bank"})),
        ),
        dialects=(tmp_path / "mine.yaml",),
        listen=Listen(
            grpc=Listener(address=Address(host="::1", port=5317), tls=shared_tls, tokens=shared_tokens),
            http=Listener(
                address=Address(host="10.0.0.1", port=5318),
                tls=TlsFiles(setting="listen.http.tls", cert_file=tmp_path / "own.pem", key_file=tmp_path / "own.key"),
                tokens=TokenFile(setting="listen.http.token_file", path=tmp_path / "own"),
            ),
            control=Listener(address=Address(host="localhost", port=5319), tls=shared_tls, tokens=shared_tokens),
            allowed_origins=frozenset({"https://a.example", "http://localhost:3000"}),
            insecure=True,
        ),
        completion=CompletionPolicy(
            wait_after_root_ns=2 * SECOND_NS,
            wait_after_root_max_ns=3 * SECOND_NS,
            idle_timeout_ns=240 * SECOND_NS,
            trace_timeout_ns=18_000 * SECOND_NS,
            late_span_window_ns=0,
            max_revisions=0,
            unit=Unit.AGENT_INVOCATION,
            root=RootCondition(name="run", attributes=(("kind", "agent"), ("level", 1), ("ours", True))),
        ),
        shutdown_timeout_ns=SECOND_NS // 2,
        buffer=BufferLimits(
            num_traces=1, limit_bytes=2 * MIB, maximum_trace_size_bytes=3072, span_limit=4, decisions=5, decisions_ns=6 * SECOND_NS
        ),
        intake=Intake(max_request_bytes=7 * MIB, queue_bytes=8 * MIB),
        journal=JournalSettings(path=tmp_path / "state/journal.db", sync=JournalSync.ACK),
        export=Export(enabled=True, endpoint="http://collector:4318", protocol=OtlpProtocol.HTTP),
        status=Status(enabled=False, traces=9, limit_bytes=10 * MIB, path=tmp_path / "state/status.db", max_age_ns=3600 * SECOND_NS),
        emit=Emit(metrics=False, events=False, spans=False),
        show_values=ShownValues.TRUNCATE,
        redact=Redact(keys=("iban",), patterns=(compile_pattern("KD-[0-9]+"),), defaults=False),
        log=Log(level=LogLevel.DEBUG, format=LogFormat.JSON),
    )


def test_json_and_camel_case_do_as_well(tmp_path: Path) -> None:
    write(tmp_path, {"s.json": {"completion": {"idleTimeout": "1s"}, "limits": {"numTraces": 3}, "listen": {"grpc": "localhost:1"}}})
    found = load_settings(tmp_path / "s.json", {}, Deployment.SIDECAR)
    assert (found.completion.idle_timeout_ns, found.buffer.num_traces, str(found.listen.grpc.address)) == (SECOND_NS, 3, "localhost:1")


NOTHING_LISTENED = "listen: {grpc: , http: {address: , tls: , token_file: , cors: }, control: false, tls: {cert_file: }, token_file: }"


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "listen:\nlimits: {num_traces: }\nexport: {otlp: }\ncriteria:\n", "{}", NOTHING_LISTENED]
)
def test_what_is_left_out_or_null_has_its_default(tmp_path: Path, text: str) -> None:
    assert settings(text, folder=tmp_path) == settings()


@pytest.mark.parametrize(
    ("variable", "text", "changed"),
    [
        pytest.param(
            "LISTEN_GRPC", "127.0.0.1:1", {"listen": Listen(grpc=Listener(address=Address(host="127.0.0.1", port=1)))}, id="address"
        ),
        pytest.param("LISTEN_CONTROL", "[::1]:7", {"listen": Listen(control=Listener(address=Address(host="::1", port=7)))}, id="control"),
        pytest.param("LISTEN_CONTROL", "off", {}, id="control-off"),
        pytest.param(
            "LISTEN_TOKEN_FILE",
            "t",
            {
                "listen": Listen(
                    grpc=Listener(address=Listen().grpc.address, tokens=TokenFile(setting="listen.token_file", path=Path("t"))),
                    http=Listener(address=Listen().http.address, tokens=TokenFile(setting="listen.token_file", path=Path("t"))),
                )
            },
            id="tokens",
        ),
        pytest.param(
            "LISTEN_GRPC_TOKEN_FILE",
            "t",
            {
                "listen": Listen(
                    grpc=Listener(address=Listen().grpc.address, tokens=TokenFile(setting="listen.grpc.token_file", path=Path("t")))
                )
            },
            id="tokens-of-one",
        ),
        pytest.param(
            "LISTEN_HTTP_CORS_ALLOWED_ORIGINS",
            "https://a, http://b:1",
            {"listen": Listen(allowed_origins=frozenset({"https://a", "http://b:1"}))},
            id="origins",
        ),
        pytest.param(
            "LISTEN_ALLOWED_HOSTS",
            "scores.example.com, [fd00::7]",
            {"listen": Listen(allowed_hosts=frozenset({"scores.example.com", "fd00::7"}))},
            id="hosts",
        ),
        pytest.param("LISTEN_INSECURE", "true", {"listen": Listen(insecure=True)}, id="flag"),
        pytest.param("LIMITS_QUEUE_BYTES", "1MiB", {"intake": Intake(queue_bytes=MIB)}, id="size"),
        pytest.param("LIMITS_NUM_TRACES", "7", {"buffer": BufferLimits(num_traces=7)}, id="number"),
        pytest.param("COMPLETION_IDLE_TIMEOUT", "7", {"completion": CompletionPolicy(idle_timeout_ns=7 * SECOND_NS)}, id="seconds"),
        pytest.param("COMPLETION_SHUTDOWN_TIMEOUT", "1m", {"shutdown_timeout_ns": 60 * SECOND_NS}, id="duration"),
        pytest.param("EXPORT_OTLP_ENDPOINT", "http://a:4317", {"export": Export(endpoint="http://a:4317")}, id="endpoint"),
        pytest.param("EXPORT_OTLP_PROTOCOL", "grpc", {"export": Export(protocol=OtlpProtocol.GRPC)}, id="protocol"),
        pytest.param("EXPORT_OTLP", "off", {"export": Export(enabled=False)}, id="export-off"),
        pytest.param("STATUS_PATH", "status.db", {"status": Status(path=Path("status.db"))}, id="status"),
        pytest.param("EMIT_SPANS", "False", {"emit": Emit(spans=False)}, id="emit"),
        pytest.param("EXPLAIN_VALUES", "full", {"show_values": ShownValues.FULL}, id="values"),
        pytest.param(
            "EXPLAIN_REDACT_KEYS", "iban, customer_number", {"redact": Redact(keys=("iban", "customer_number"))}, id="redacted-keys"
        ),
        pytest.param(
            "EXPLAIN_REDACT_PATTERNS", "a{1,3}", {"redact": Redact(patterns=(compile_pattern("a{1,3}"),))}, id="redacted-patterns"
        ),
        pytest.param("EXPLAIN_REDACT_DEFAULTS", "false", {"redact": Redact(defaults=False)}, id="redacting-defaults"),
        pytest.param("LOG_FORMAT", "json", {"log": Log(format=LogFormat.JSON)}, id="log"),
        pytest.param(
            "CRITERIA",
            os.pathsep.join(["a", "b/c"]),
            {"criteria": (CriteriaSource(path=Path("a")), CriteriaSource(path=Path("b/c")))},
            id="criteria",
        ),
        pytest.param("DIALECTS", "a.yaml", {"dialects": (Path("a.yaml"),)}, id="dialects"),
        pytest.param("LISTEN_GRPC", " ", {}, id="empty-is-not-set"),
    ],
)
def test_each_variable_sets_what_its_name_says(variable: str, text: str, changed: dict[str, object]) -> None:
    assert settings(environ={PREFIX + variable: text}) == replace(settings(), **changed)  # type: ignore[arg-type]


def test_every_leaf_of_the_file_has_its_variable() -> None:
    assert "OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_RECEIVED" in SINGLE_VARIABLES
    assert SINGLE_VARIABLES["OTEL_TOOLCALL_EVAL_EXPORT_OTLP_ENDPOINT"] == ("export", "otlp", "endpoint")
    assert all(name == PREFIX + "_".join(path).upper() for name, path in SINGLE_VARIABLES.items())


def test_the_environment_goes_before_the_file_and_the_file_before_the_defaults(tmp_path: Path) -> None:
    text = "limits: {num_traces: 2, span_limit: 2}\ncriteria: [a.yaml]"
    found = settings(text, {f"{PREFIX}LIMITS_NUM_TRACES": "3", f"{PREFIX}CRITERIA": "b.yaml"}, folder=tmp_path)
    assert found.buffer == BufferLimits(num_traces=3, span_limit=2)
    assert found.criteria == (CriteriaSource(path=Path("b.yaml")),)


@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        pytest.param("export: {otlp: off}", {}, Export(enabled=False), id="off"),
        pytest.param("export: {otlp: false}", {}, Export(enabled=False), id="false"),
        pytest.param("export: {otlp: {protocol: grpc}}", {}, Export(protocol=OtlpProtocol.GRPC), id="protocol-alone"),
        pytest.param("export: {otlp: off}", {"EXPORT_OTLP_ENDPOINT": "http://a:1"}, Export(endpoint="http://a:1"), id="on-again"),
        pytest.param(
            "export: {otlp: {endpoint: http://a:1}}",
            {"EXPORT_OTLP": "off"},
            Export(enabled=False, endpoint="http://a:1"),
            id="off-after-all",
        ),
        pytest.param(
            "export: {otlp: off}", {"EXPORT_OTLP_PROTOCOL": "grpc"}, Export(enabled=False, protocol=OtlpProtocol.GRPC), id="still-off"
        ),
    ],
)
def test_off_is_off_until_something_stronger_names_an_endpoint(
    tmp_path: Path, text: str, environ: dict[str, str], expected: Export
) -> None:
    assert settings(text, {PREFIX + name: value for name, value in environ.items()}, folder=tmp_path).export == expected


def test_variables_of_opentelemetry_are_not_ours_to_read() -> None:
    assert settings(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4317", "OTEL_SERVICE_NAME": "x"}) == settings()


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    write(tmp_path, {"s.yaml": "limits: {num_traces: 2}", "t.yaml": "limits: {num_traces: 3}"})
    environ = {f"{PREFIX}CONFIG": str(tmp_path / "s.yaml")}
    assert load_settings(None, environ, Deployment.SIDECAR).buffer.num_traces == 2
    assert load_settings(tmp_path / "t.yaml", environ, Deployment.SIDECAR).buffer.num_traces == 3


def test_an_unknown_variable_with_our_prefix_is_warned_about() -> None:
    found = settings(environ={f"{PREFIX}LISTEN_GRCP": "127.0.0.1:1", f"{PREFIX}ZZZ": "1"})
    assert [str(warning) for warning in found.warnings] == [
        "OTEL_TOOLCALL_EVAL_LISTEN_GRCP: this variable sets nothing; did you mean 'OTEL_TOOLCALL_EVAL_LISTEN_GRPC'?",
        "OTEL_TOOLCALL_EVAL_ZZZ: this variable sets nothing; remove it",
    ]
    assert found == settings()


def test_a_slip_in_a_variable_that_guards_secrets_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        settings(environ={f"{PREFIX}EXPLAIN_REDACT_KYES": "iban", f"{PREFIX}EXPLAIN_VALUES": "full"})
    fix = "did you mean 'OTEL_TOOLCALL_EVAL_EXPLAIN_REDACT_KEYS'?"
    assert str(caught.value) == f"OTEL_TOOLCALL_EVAL_EXPLAIN_REDACT_KYES: this variable sets nothing; {fix}"


def test_a_wait_beyond_its_cap_is_warned_about() -> None:
    found = settings(environ={f"{PREFIX}COMPLETION_DECISION_WAIT_AFTER_ROOT_RECEIVED": "2m"})
    assert [str(warning) for warning in found.warnings] == [
        "completion.decision_wait_after_root_received: it is longer than decision_wait_after_root_max, which holds; raise that, too",
    ]


DURATION = "write a number with a unit, as in 500ms, 10s, 5m or 1h, or a number of seconds"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("lisen: {}", ["sidecar.yaml:1: lisen: unknown key 'lisen'; did you mean 'listen'?"], id="section"),
        pytest.param("listen: {gprc: x}", ["sidecar.yaml:1: listen.gprc: unknown key 'gprc'; did you mean 'grpc'?"], id="setting"),
        pytest.param(
            "listen: 5", ["sidecar.yaml:1: listen: this is a whole number, not an object; write keys with values"], id="no-section"
        ),
        pytest.param("5", ["sidecar.yaml:1: this is a whole number, not an object; write keys with values"], id="no-object"),
        pytest.param(
            "explain: {redact: {patterns: ['a', 'b(']}}",
            [f"{PLACE}.patterns[1]: 'b(' can't be used: missing ): b(; {PATTERNS_FIX}"],
            id="pattern",
        ),
        pytest.param(
            "explain: {redact: {patterns: ['a*']}}",
            [f"{PLACE}.patterns[0]: 'a*' holds for the empty text, thus everywhere; let it ask for one character at least"],
            id="pattern-for-nothing",
        ),
        pytest.param(
            "explain: {redact: {keys: iban, patterns: [5]}}",
            [
                "sidecar.yaml:1: explain.redact.keys: this is text, not a list; write a list, even for a single entry",
                f"{PLACE}.patterns[0]: this is a whole number, not text; put it in quotes",
            ],
            id="redacting-what",
        ),
        pytest.param(
            "explain: {redact: {keys: ['--'], key: [a]}}",
            [
                "sidecar.yaml:1: explain.redact.keys[0]: '--' has neither letters nor digits; list keys, as in [customer_number, iban]",
                "sidecar.yaml:1: explain.redact.key: unknown key 'key'; did you mean 'keys'?",
            ],
            id="key-without-words",
        ),
        pytest.param("a: [", None, id="no-yaml"),
        pytest.param(
            "criteria: a.yaml", ["sidecar.yaml:1: criteria: this is text, not a list; write a list, even for a single entry"], id="no-list"
        ),
        pytest.param(
            "criteria: ['', 5, {pth: a}, {path: a, services: []}]",
            [
                "sidecar.yaml:1: criteria[0]: this is empty; write a name",
                "sidecar.yaml:1: criteria[1]: this is a whole number, not a path; write a path, or an object with path and services",
                "sidecar.yaml:1: criteria[2].pth: unknown key 'pth'; did you mean 'path'?",
                "sidecar.yaml:1: criteria[3].services: this is empty; add at least one entry, or remove it",
            ],
            id="entries",
        ),
        pytest.param(
            "completion: {idle_timeout: 5x}\nlimits:\n  num_traces: 0\nexplain: {values: of}\nexport: {otlp: {endpont: x}}\ncriteria: [1]",
            [
                "sidecar.yaml:6: criteria[0]: this is a whole number, not a path; write a path, or an object with path and services",
                f"sidecar.yaml:1: completion.idle_timeout: '5x' is not a duration; {DURATION}",
                "sidecar.yaml:3: limits.num_traces: 0 is not at least 1; write a number of at least 1",
                "sidecar.yaml:5: export.otlp.endpont: unknown key 'endpont'; did you mean 'endpoint'?",
                "sidecar.yaml:4: explain.values: 'of' is not known here; did you mean 'off'?",
            ],
            id="everything-at-once",
        ),
        pytest.param(
            "export: {otlp: on}", ["sidecar.yaml:1: export.otlp: 'on' is not known here; write off, or an object with an endpoint"], id="on"
        ),
        pytest.param(
            "export: {otlp: 5}", ["sidecar.yaml:1: export.otlp: this is a whole number, not an object; write keys with values"], id="number"
        ),
        pytest.param(
            "listen: {insecure: yes}",
            ["sidecar.yaml:1: listen.insecure: 'yes' is neither true nor false; write true or false, without quotes"],
            id="yes",
        ),
        pytest.param("log: {level: INFO}", ["sidecar.yaml:1: log.level: 'INFO' is not known here; did you mean 'info'?"], id="level"),
    ],
)
def test_what_can_not_be_used_is_refused_with_its_line(tmp_path: Path, text: str, expected: list[str] | None) -> None:
    found = setting_complaints(tmp_path, text)
    assert found == expected or (expected is None and found)


def test_attribute_of_a_root_is_a_single_value(tmp_path: Path) -> None:
    (found,) = setting_complaints(tmp_path, "completion: {root: {attributes: {a: [1], b: 2}}}")
    assert found.endswith("completion.root.attributes.a: this is a list; write text, a number, true or false")


def test_variables_that_can_not_be_used_are_refused_under_their_names() -> None:
    environ = {f"{PREFIX}LIMITS_NUM_TRACES": "ten", f"{PREFIX}EXPORT_OTLP": "on", f"{PREFIX}LOG_LEVEL": "loud"}
    with pytest.raises(SettingsError) as caught:
        settings(environ=environ)
    assert str(caught.value).splitlines() == [
        "OTEL_TOOLCALL_EVAL_EXPORT_OTLP: export.otlp: 'on' is not known here; write off, or an object with an endpoint",
        "OTEL_TOOLCALL_EVAL_LIMITS_NUM_TRACES: limits.num_traces: this is text, not a whole number; write a whole number",
        "OTEL_TOOLCALL_EVAL_LOG_LEVEL: log.level: 'loud' is not known here; use one of debug, error, info, warning",
    ]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file or directory"):
        load_settings(tmp_path / "none.yaml", {}, Deployment.SIDECAR)


OPEN = "can be reached from other machines, without encryption, and nobody is asked who they are"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("listen: {grpc: 0.0.0.0:4317}", [f"listen.grpc: 0.0.0.0:4317 {OPEN}"], id="grpc"),
        pytest.param(
            "listen: {grpc: 0.0.0.0:1, http: '[::]:2'}", [f"listen.grpc: 0.0.0.0:1 {OPEN}", f"listen.http: [::]:2 {OPEN}"], id="both"
        ),
        pytest.param("listen: {http: sidecar:4318}", [f"listen.http: sidecar:4318 {OPEN}"], id="name"),
    ],
)
def test_others_reach_us_only_if_that_is_asked_for(tmp_path: Path, text: str, expected: list[str]) -> None:
    fix = (
        "; give it tls and a token_file (or a client_ca_file), listen on 127.0.0.1, "
        "or set listen.insecure to true (--insecure) where the network is closed"
    )
    assert setting_complaints(tmp_path, text) == [complaint + fix for complaint in expected]
    loud = settings(text, {f"{PREFIX}LISTEN_INSECURE": "true"}, folder=tmp_path).warnings
    assert [str(warning) for warning in loud] == [
        f"{complaint}; this is so because listen.insecure is set; keep the network closed" for complaint in expected
    ]


def test_two_receivers_can_not_share_a_port(tmp_path: Path) -> None:
    assert setting_complaints(tmp_path, "listen: {grpc: localhost:1, http: localhost:1}") == [
        "listen.http: gRPC and HTTP can't both listen on localhost:1; give them different ports",
    ]
    settings("listen: {grpc: localhost:0, http: localhost:0}", folder=tmp_path)


TLS = "tls: {cert_file: c, key_file: k}"
MTLS = "tls: {cert_file: c, key_file: k, client_ca_file: a}"


@pytest.mark.parametrize(
    ("protection", "lacks"),
    [
        pytest.param(f"{TLS}, token_file: t", None, id="encrypted-and-asked-for-a-token"),
        pytest.param(MTLS, None, id="encrypted-and-asked-for-a-certificate"),
        pytest.param(TLS, ", and nobody is asked who they are", id="encrypted"),
        pytest.param("token_file: t", ", without encryption", id="asked-for-a-token"),
    ],
)
@pytest.mark.parametrize("name", ["grpc", "http", "control"])
def test_an_address_that_others_reach_needs_encryption_and_someone_who_is_asked(
    tmp_path: Path, name: str, protection: str, lacks: str | None
) -> None:
    own = f"listen: {{{name}: {{address: '0.0.0.0:1', {protection}}}}}"
    shared = f"listen: {{{name}: '0.0.0.0:1', {protection}}}"
    for text in (own, shared):
        if lacks is None:
            settings(text, folder=tmp_path)
        else:
            (found,) = setting_complaints(tmp_path, text)
            assert found.startswith(f"listen.{name}: 0.0.0.0:1 can be reached from other machines{lacks}; give it tls")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "listen: {tls: {key_file: k}}", ["listen.tls: cert_file is missing; name its certificate"], id="key-without-certificate"
        ),
        pytest.param(
            "listen: {grpc: {tls: {cert_file: c}}}",
            ["listen.grpc.tls: key_file is missing; name the private key of cert_file"],
            id="certificate-without-key",
        ),
        pytest.param(
            "listen: {control: {tls: {client_ca_file: c}, address: off}}",
            ["listen.control.tls: cert_file is missing; name its certificate"],
            id="authority-alone",
        ),
        pytest.param(
            "listen: {http: {cors: {allowed_origins: ['https://a/', b, 5]}}}",
            [
                f"sidecar.yaml:1: listen.http.cors.allowed_origins[0]: 'https://a/' is not an origin; {ORIGINS_FIX}",
                f"sidecar.yaml:1: listen.http.cors.allowed_origins[1]: 'b' is not an origin; {ORIGINS_FIX}",
                "sidecar.yaml:1: listen.http.cors.allowed_origins[2]: this is a whole number, not text; put it in quotes",
            ],
            id="origin-with-a-path",
        ),
        pytest.param(
            "listen: {allowed_hosts: ['a:80']}",
            [
                (
                    "sidecar.yaml:1: listen.allowed_hosts[0]: 'a:80' is not a host; "
                    "list names and addresses without scheme and port, as in scores.example.com or ::1; * alone is any"
                )
            ],
            id="host-with-a-port",
        ),
        pytest.param(
            "listen: {allowed_hosts: a}",
            [("sidecar.yaml:1: listen.allowed_hosts: this is text, not a list; write a list, even for a single entry")],
            id="host-alone",
        ),
        pytest.param(
            "listen: {http: 5}",
            [
                (
                    "sidecar.yaml:1: listen.http: this is a whole number, not a listener; "
                    "write host:port, or an object with address, tls and token_file"
                )
            ],
            id="no-listener",
        ),
        pytest.param(
            "listen: {http: {adress: x}}",
            ["sidecar.yaml:1: listen.http.adress: unknown key 'adress'; did you mean 'address'?"],
            id="misspelt",
        ),
        pytest.param(
            "listen: {grpc: {cors: {}}}",
            ["sidecar.yaml:1: listen.grpc.cors: unknown key 'cors'; use one of address, tls, token_file"],
            id="cors-of-grpc",
        ),
    ],
)
def test_listeners_that_can_not_be_are_refused(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert setting_complaints(tmp_path, text) == expected


def test_certificate_and_key_may_come_from_different_layers(tmp_path: Path) -> None:
    found = settings(
        "listen: {grpc: {address: 'localhost:1', tls: {cert_file: c}}, control: 'localhost:2'}",
        {f"{PREFIX}LISTEN_GRPC_TLS_KEY_FILE": "k", f"{PREFIX}LISTEN_GRPC": "localhost:3", f"{PREFIX}LISTEN_CONTROL": "off"},
        folder=tmp_path,
    ).listen
    assert found.grpc == Listener(
        address=Address(host="localhost", port=3),
        tls=TlsFiles(setting="listen.grpc.tls", cert_file=tmp_path / "c", key_file=Path("k")),
    )
    assert (found.control, found.http.scheme, found.grpc.scheme) == (None, "http", "https")


def test_no_two_of_three_listeners_share_a_port(tmp_path: Path) -> None:
    assert setting_complaints(tmp_path, "listen: {grpc: 'localhost:1', http: 'localhost:2', control: 'localhost:2'}") == [
        "listen.control: HTTP and the control listener can't both listen on localhost:2; give them different ports",
    ]


def test_without_the_package_for_patterns_the_cure_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    (told,) = setting_complaints(tmp_path, "explain: {redact: {patterns: [a]}}")
    assert told.startswith(
        "sidecar.yaml:1: explain.redact.patterns[0]: 'a' can't be used: patterns need the package google-re2, which is not"
    )
    assert told.endswith("; pip install 'otel-toolcall-eval[patterns]'")
