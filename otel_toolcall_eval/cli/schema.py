"""``schema``: prints the JSON Schema of a kind of file, for editors and other checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.output import print_json
from otel_toolcall_eval.settings.schema import criteria_schema

if TYPE_CHECKING:
    import argparse


def run(arguments: argparse.Namespace) -> int:
    """Print."""
    print_json(criteria_schema(arguments.kind))
    return 0
