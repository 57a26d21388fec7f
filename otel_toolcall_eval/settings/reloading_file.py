"""Values made of files that are replaced while we run: certificates, keys, tokens.

Polled, as criteria files are: a Kubernetes secret swaps a link, which inotify misses. What is compared is the content, by its hash: a
file may be written twice within one tick of its time, with the same size, and the files are small.
A file that breaks or vanishes leaves the last good value in force; else a slip of whoever renews it would lock everybody out.
"""

from __future__ import annotations

import hashlib
import logging
import stat
from typing import TYPE_CHECKING, Generic, TypeVar

from otel_toolcall_eval.model.errors import Problem, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 20
MAX_TOKENS = 100
MAX_TOKEN_CHARACTERS = 4096
_READABLE_BY_OTHERS = stat.S_IROTH

_Value = TypeVar("_Value")


class ReloadingValue(Generic[_Value]):
    """A value and the files that it is made of. ``refresh`` belongs to one thread; ``value`` may be read by any."""

    def __init__(self, files: Mapping[str, Path], make: Callable[[Sequence[bytes]], _Value]) -> None:
        """Make the value for the first time.

        Args:
            files: setting to path.
            make: gets the content of each file, in their order; raises SettingsError. It may also read the paths itself.

        Raises:
            SettingsError: a file can't be read, or its content can't be used.
        """
        self._files = dict(files)
        self._make = make
        contents = self._read()
        self._seen = _hashes(contents)
        self._value = make(contents)
        self._failed_looks = 0

    @property
    def value(self) -> _Value:
        """Return the value in force."""
        return self._value

    def refresh(self) -> bool:
        """Look at the files, and make the value anew if they have changed; True if it was.

        A fault is logged once, when it is still there at the second look: of two files that belong together, one is replaced first.
        """
        try:
            contents = self._read()
            seen = _hashes(contents)
            value = self._value if seen == self._seen else self._make(contents)
            # `make` may have read the paths after us; what was replaced meanwhile is for the next look.
            changed = seen != self._seen and _hashes(self._read()) == seen
        except Exception as error:  # noqa: BLE001 - whatever is written into a file, it must not end the service
            self._failed(error)
            return False
        self._failed_looks = 0
        if changed:
            self._seen, self._value = seen, value
            _logger.info("files were read again", extra={"settings": list(self._files)})
        return changed

    def _failed(self, error: Exception) -> None:
        self._failed_looks += 1
        if self._failed_looks == 2:  # noqa: PLR2004 - the second look
            # No traceback, nor the text of an error that is not ours: it might say what no log line may.
            problems = [str(problem) for problem in error.problems] if isinstance(error, SettingsError) else [type(error).__qualname__]
            message = "files could not be read again; what was read before stays in force"
            _logger.error(message, extra={"settings": list(self._files), "problems": problems})

    def _read(self) -> list[bytes]:
        return [content_of(setting, path) for setting, path in self._files.items()]


def readable_by_others(setting: str, path: Path) -> list[Problem]:
    """Return a warning if every user of this machine may read a file that holds a secret."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return []
    if not mode & _READABLE_BY_OTHERS:
        return []
    fix = "take the right to read it from others, as with chmod o-r (in Kubernetes: defaultMode: 0440)"
    return [Problem(where=f"{setting}: {path}", what="every user of this machine can read this file", fix=fix)]


def content_of(setting: str, path: Path) -> bytes:
    """Return what a small file holds.

    Raises:
        SettingsError: it can't be read, is no regular file, or is too large.
    """
    where = f"{setting}: {path}"
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its other end
            raise SettingsError(where=where, what="this is not a regular file", fix="name a file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable path"
        raise SettingsError(where=where, what=f"the file can't be read ({reason})", fix="check its name and permissions") from error
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(where=where, what=f"the file has more than {MAX_FILE_BYTES >> 20} MiB", fix="name the right file")
    return content


def _hashes(contents: Sequence[bytes]) -> list[bytes]:
    """Return what stands for the contents; keys and tokens are not kept for comparison."""
    return [hashlib.sha256(content).digest() for content in contents]


def tokens_in(content: bytes, *, where: str) -> list[bytes]:
    """Return the bearer tokens in a file's content, one a line; lines that begin with # are comments.

    A receiver accepts each of them, a sender shows the first: one file serves both ends while a token is replaced.

    Raises:
        SettingsError: there is none, there are too many, or a line is none. The message does not repeat the line.
    """
    found: list[bytes] = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        token = line.strip()
        if not token or token.startswith(b"#"):
            continue
        if len(token) > MAX_TOKEN_CHARACTERS or not all(0x21 <= character <= 0x7E for character in token):  # noqa: PLR2004 - visible ASCII
            what = f"line {number} is not a token"
            fix = f"write one token a line: up to {MAX_TOKEN_CHARACTERS} visible ASCII characters, without blanks"
            raise SettingsError(where=where, what=what, fix=fix)
        found.append(token)
    if not found:
        raise SettingsError(where=where, what="the file holds no token", fix="write one into it, made with `openssl rand -hex 32`")
    if len(found) > MAX_TOKENS:
        raise SettingsError(where=where, what=f"the file holds more than {MAX_TOKENS} tokens", fix="remove those that nobody uses")
    return found
