"""``healthcheck``: asks a running sidecar whether it is ready. Made for a container's HEALTHCHECK, where no curl is at hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.sidecar_client import OK, ask, target_of

if TYPE_CHECKING:
    import argparse

PATH = "/readyz"
MAX_BYTES = 200


def run(arguments: argparse.Namespace) -> int:
    """Ask once; 0 if the answer is 200, else 1 with the reason on standard error."""
    target = target_of(arguments)
    if not arguments.url:
        target = replace(target, url=target.url + PATH)  # to be shown as it is asked
    # Readiness needs no token; so a checker that may not read the token file can still ask.
    reply = ask(target, path=PATH, timeout_seconds=arguments.timeout, max_bytes=MAX_BYTES, with_token=arguments.token_file is not None)
    if reply.status == OK:
        return 0
    said = reply.body.decode(errors="replace").strip()
    reason = f"{reply.status} {said}" if reply.status else f"{said}; is the sidecar running?"
    sys.stderr.write(f"{target.url}: {reason}\n")
    return 1
