"""Bearer tokens: who may use a listener. Source: RFC 6750.

Only hashes of the tokens are kept: they have one length, so comparing them tells nothing about the tokens, and what is not in memory is
in no log line, page or dump. The hash need not be slow: tokens are random, and not chosen by people.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import IntakeError, Problem
from otel_toolcall_eval.settings.reloading_file import ReloadingValue, readable_by_others, tokens_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MIN_CHARACTERS = 16
"""Shorter tokens are warned about: they can be guessed."""

_SCHEME = "bearer"
_FIX = "send the header `Authorization: Bearer TOKEN` with a token of this listener"


class UnauthenticatedError(IntakeError):
    """The request has no valid token: 401, UNAUTHENTICATED, do not resend."""

    http_status = 401
    grpc_code = "UNAUTHENTICATED"


class Tokens:
    """The tokens of a listener. ``refresh`` belongs to one thread, ``check`` may be called from any."""

    def __init__(self, path: Path, *, setting: str) -> None:
        """Read the file; each token in it is valid.

        Raises:
            SettingsError: the file can't be read, holds no token, or holds what is none.
        """
        self._where = f"{setting}: {path}"
        self._short = 0
        self._renewed = ReloadingValue({setting: path}, self._hashes_in)
        self._readable = readable_by_others(setting, path)

    @property
    def warnings(self) -> Sequence[Problem]:
        """Return what the operator should know about the file."""
        if not self._short:
            return self._readable
        what = f"{self._short} of the tokens have fewer than {MIN_CHARACTERS} characters, and can be guessed"
        return [*self._readable, Problem(where=self._where, what=what, fix="make tokens with `openssl rand -hex 32`")]

    def refresh(self) -> None:
        """Read the file again if it has changed; a broken one leaves the old tokens in force."""
        self._renewed.refresh()

    def check(self, authorization: str | bytes | None) -> None:
        """Let a request pass that has one of the tokens.

        Args:
            authorization: the header, or the gRPC metadata, of that name.

        Raises:
            UnauthenticatedError: it has none. The message does not repeat what was sent.
        """
        if not authorization:
            raise UnauthenticatedError(where="authorization", what="the request has no token", fix=_FIX)
        given = authorization if isinstance(authorization, bytes) else authorization.encode("utf-8", "surrogateescape")
        scheme, _, token = given.partition(b" ")
        if not self.holds(digest_of(token)) or scheme.lower() != _SCHEME.encode():
            raise UnauthenticatedError(where="authorization", what="the token is not valid", fix=_FIX)

    def holds(self, digest: bytes) -> bool:
        """Tell whether one of the tokens has this digest."""
        found = False
        for known in self._renewed.value:  # all of them, whichever fits: the time tells nothing
            found |= hmac.compare_digest(known, digest)
        return found

    def _hashes_in(self, contents: Sequence[bytes]) -> tuple[bytes, ...]:
        tokens = tokens_in(contents[0], where=self._where)
        self._short = sum(len(token) < MIN_CHARACTERS for token in tokens)
        return tuple(digest_of(token) for token in tokens)


def digest_of(token: bytes) -> bytes:
    """Return what is kept of a token."""
    return hashlib.sha256(token.strip()).digest()
