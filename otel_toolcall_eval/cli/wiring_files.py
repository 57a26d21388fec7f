"""Reads the files that settings name for protection, as a sidecar does when it starts, for whoever only checks settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import Problem, SettingsError
from otel_toolcall_eval.settings.build_pipeline import own_version
from otel_toolcall_eval.sidecar.build_forwarding import build_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.settings.service import Settings


def read_files(settings: Settings) -> Sequence[Problem]:
    """Read the files of certificates, keys and tokens as a sidecar does when it starts, and return what is odd about them.

    Raises:
        SettingsError: files can't be used; with all that is wrong.
    """
    forward = settings.forward
    protected = any(listener.tls is not None or listener.tokens is not None for listener in settings.listen.listeners.values())
    passes_on = forward.endpoint is not None and any((forward.token_file, forward.ca_file, forward.cert_file, forward.key_file))
    if not protected and not passes_on:
        return ()
    try:
        from otel_toolcall_eval.sidecar.build_receivers import Protection  # noqa: PLC0415 - needs the sidecar's extra, which whoever checks may not have
    except ImportError as error:
        what = f"certificates, keys and tokens were not looked at: {error.name} is not installed"
        return [Problem(where="settings", what=what, fix="pip install 'otel-toolcall-eval[sidecar]'")]
    warnings: list[Problem] = []
    problems: list[Problem] = []
    try:
        warnings += Protection(settings.listen).warnings
    except SettingsError as error:
        problems += error.problems
    try:
        client = build_client(settings, version=own_version())
        warnings += () if client is None else client.warnings
    except SettingsError as error:
        problems += error.problems
    if problems:
        raise SettingsError.of(problems)
    return warnings
