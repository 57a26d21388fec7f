"""What a file of bearer tokens is: one rule for those that we ask for and for those that we show.

One token a line; blank lines, and lines that begin with ``#``, say nothing, nor does a byte order mark. Whoever asks takes each of them,
whoever shows one shows the first: so the same file serves both ends, and a new token is put on top once the other end knows it.
"""

from __future__ import annotations

from otel_toolcall_eval.model.errors import SettingsError

MAX_TOKENS = 100
MAX_CHARACTERS = 4096


def tokens_in(content: bytes, *, where: str) -> list[bytes]:
    """Return the tokens of a file's content.

    Raises:
        SettingsError: there is none, there are too many, or a line is none. The message does not repeat the line.
    """
    found: list[bytes] = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        token = line.strip()
        if not token or token.startswith(b"#"):
            continue
        if len(token) > MAX_CHARACTERS or not all(0x21 <= character <= 0x7E for character in token):  # noqa: PLR2004 - visible ASCII
            what = f"line {number} is not a token"
            fix = f"write one token a line: up to {MAX_CHARACTERS} visible ASCII characters, without blanks"
            raise SettingsError(where=where, what=what, fix=fix)
        found.append(token)
    if not found:
        raise SettingsError(where=where, what="the file holds no token", fix="write one into it, made with `openssl rand -hex 32`")
    if len(found) > MAX_TOKENS:
        raise SettingsError(where=where, what=f"the file holds more than {MAX_TOKENS} tokens", fix="remove those that nobody uses")
    return found
