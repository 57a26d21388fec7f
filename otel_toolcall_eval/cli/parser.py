"""All commands and their options, with examples."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NoReturn

from otel_toolcall_eval.cli.output import console
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.sidecar.process_limits import without_collector

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "otel-toolcall-eval"

_EPILOG = """\
exit codes:
  0  everything passed          1  something failed or is inconclusive          2  the input can't be used

first steps:
  otel-toolcall-eval demo                                   watch an agent being evaluated
  otel-toolcall-eval calls traces.jsonl                     see which tool calls are read out of recorded spans
  otel-toolcall-eval evaluate traces.jsonl --criteria evals/   evaluate them
  otel-toolcall-eval serve --criteria evals/                receive OTLP on 127.0.0.1:4317 and :4318, and evaluate it
"""


class _Parser(argparse.ArgumentParser):
    """Reports a wrong option in our own form."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(where="command line", what=message, fix=f"see {self.prog} --help")


class _Version(argparse.Action):
    """Writes our version, which is looked up when it is asked for: it stands in a file that takes 10 ms to find and read."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"{PROGRAM} {_version()}")  # noqa: T201 - the command line's own output
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line. Each command's module is imported when it runs, so that --help is instant."""
    parser = _Parser(
        prog=PROGRAM,
        description="Evaluates how agents call tools, from their OpenTelemetry spans.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="show program's version number and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    _serve(commands)
    _evaluate(commands)
    _calls(commands)
    _check(commands)
    _schema(commands)
    _demo(commands)
    _healthcheck(commands)
    _traces(commands)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    Raises:
        ToolCallEvalError: the input can't be used.
    """
    parsed = build_parser().parse_args(arguments)
    if getattr(parsed, "format", None) == "table":
        console()  # says in words that rich is missing, before any work is done
    with without_collector():
        command = import_module(f"otel_toolcall_eval.cli.{parsed.module}")
    code: int = command.run(parsed)
    return code


Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it


def _command(commands: Commands[_Parser], name: str, summary: str, examples: str) -> _Parser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(module=name)
    return parser


def _serve(commands: Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "serve",
        "run the sidecar: receive OTLP, evaluate each trace, export the scores",
        "  otel-toolcall-eval serve\n"
        "  otel-toolcall-eval serve --criteria evals/ --verdicts text\n"
        "  otel-toolcall-eval serve --config config/sidecar.yaml\n"
        "  OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317 otel-toolcall-eval serve --criteria evals/\n",
    )
    parser.add_argument("--config", metavar="FILE", help="settings (YAML or JSON); without it the defaults hold")
    parser.add_argument("--criteria", metavar="PATH", action="append", default=[], help="criteria file or folder; may be repeated")
    parser.add_argument("--grpc", metavar="HOST:PORT", help="listen for OTLP/gRPC here (default 127.0.0.1:4317)")
    parser.add_argument("--http", metavar="HOST:PORT", help="listen for OTLP/HTTP here (default 127.0.0.1:4318)")
    parser.add_argument("--control", metavar="HOST:PORT", help="bind criteria to traces by their IDs here (default off)")
    parser.add_argument("--insecure", action="store_true", help="allow listening beyond this machine without TLS and token")
    parser.add_argument("--verdicts", choices=("off", "text", "json"), default="off", help="also write each verdict to standard output")


def _evaluate(commands: Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "evaluate",
        "evaluate recorded traces by criteria",
        "  otel-toolcall-eval evaluate traces.jsonl --criteria evals/\n"
        "  otel-toolcall-eval evaluate run1.json run2.pb.gz --criteria policy.yaml --format json\n"
        "  cat traces.jsonl | otel-toolcall-eval evaluate - --criteria policy.yaml\n",
    )
    _add_traces(parser)
    parser.add_argument("--criteria", metavar="PATH", action="append", default=[], help="criteria file or folder; may be repeated")
    _add_settings(parser)
    _add_format(parser)
    parser.add_argument("--require-all", action="store_true", help="exit 1 if some criteria met no trace, as after a typo in `match`")
    parser.add_argument("--allow-inconclusive", action="store_true", help="exit 0 although some verdicts are inconclusive")


def _calls(commands: Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "calls",
        "show the tool calls that are read out of recorded traces, and why other spans are none",
        "  otel-toolcall-eval calls traces.jsonl\n"
        "  otel-toolcall-eval calls traces.jsonl --explain\n"
        "  otel-toolcall-eval calls traces.jsonl logs.jsonl --format json\n",
    )
    _add_traces(parser)
    _add_settings(parser)
    _add_format(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say of each span which dialects read it, where each field was found, and why it counts or not",
    )


def _check(commands: Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "check",
        "validate criteria and settings files",
        "  otel-toolcall-eval check evals/\n  otel-toolcall-eval check config/sidecar.yaml policy.yaml\n",
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="criteria file or folder, settings file")
    _add_format(parser)


def _schema(commands: Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "schema",
        "print the JSON Schema of a kind of file",
        "  otel-toolcall-eval schema criteria > criteria.schema.json\n",
    )
    parser.add_argument("kind", choices=("criteria", "evaluator", "eval-set", "settings"))


def _demo(commands: Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "demo",
        "run a sample agent against a sidecar and show how its tool calls are evaluated",
        "  otel-toolcall-eval demo\n",
    )
    _add_format(parser)


def _healthcheck(commands: Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "healthcheck",
        "ask a running sidecar whether it is ready (exit 0) or not (exit 1)",
        "  otel-toolcall-eval healthcheck\n  otel-toolcall-eval healthcheck --url http://127.0.0.1:4318/readyz\n",
    )
    parser.add_argument("--url", metavar="URL", help="what to ask (default: /readyz of the HTTP address in settings and environment)")
    _add_config(parser)
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=2.0, help="give up after this long (default 2)")
    _add_protection(parser)


def _traces(commands: Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "traces",
        "show which traces a running sidecar holds, why each waits, and until when",
        "  otel-toolcall-eval traces\n"
        "  otel-toolcall-eval traces --config config/sidecar.yaml\n"
        "  otel-toolcall-eval traces --url http://127.0.0.1:4318 --format json\n"
        "  otel-toolcall-eval traces --url https://localhost:4318 --ca-file ca.pem --token-file tokens\n",
    )
    parser.add_argument("--url", metavar="URL", help="the sidecar's HTTP address (default: that of settings and environment)")
    _add_config(parser)
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=10.0, help="give up after this long (default 10)")
    _add_protection(parser)
    _add_format(parser)


def _add_traces(parser: _Parser) -> None:
    parser.add_argument(
        "traces",
        metavar="TRACES",
        nargs="+",
        help="recorded spans, also with log records: OTLP/JSON, JSON lines or protobuf, gzipped or not; a folder; - for standard input",
    )


def _add_settings(parser: _Parser) -> None:
    parser.add_argument("--settings", metavar="FILE", help="settings file; its criteria and dialects are used")


def _add_config(parser: _Parser) -> None:
    parser.add_argument("--config", metavar="FILE", help="its settings, for address, certificate and tokens; --url goes before")


def _add_protection(parser: _Parser) -> None:
    parser.add_argument("--ca-file", metavar="FILE", help="trust this authority, for https (default: the system's, or the settings')")
    parser.add_argument("--cert-file", metavar="FILE", help="show this client certificate")
    parser.add_argument("--key-file", metavar="FILE", help="its private key")
    parser.add_argument("--token-file", metavar="FILE", help="show the first token in this file (default: that of the settings)")


def _add_format(parser: _Parser) -> None:
    parser.add_argument("--format", choices=("table", "json"), default="table", help="table for people (default), json for programs")


def _version() -> str:
    try:
        return version("otel-toolcall-eval")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "unknown"
