r"""Takes secrets out of what is about to be shown: by the key that a value stands under, and by what a value looks like.

It works on the rendered text, not on the value: what was recorded is JSON, a Python literal, JSON inside of text, text that was cut
in the middle, headers, a query; a walk over decoded values would miss all but the first two. Where it can't tell how far a secret
reaches it takes out more, never less. Cost: linear in the length, some 10 ms for 16 KiB that are dense with keys.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MARK: Final = "[REDACTED]"
"""Stands in place of what was taken out. Readers of traces know it: a value that is this counts as redacted."""

DEFAULT_KEYS: Final = (
    "access_key",
    "access_token",
    "account_key",
    "api_key",
    "api_keys",
    "api_token",
    "auth_token",
    "authorization",
    "card_number",
    "client_secret",
    "connection_string",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "csrf",
    "cvc",
    "cvv",
    "id_token",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "private_key",
    "pwd",
    "refresh_token",
    "secret",
    "secret_key",
    "secrets",
    "session_id",
    "session_token",
    "set_cookie",
    "ssn",
    "token",
)
"""Keys whose values are taken out; see ``Redactor``."""


def _run(characters: str, least: int) -> str:
    """Match a run of so many characters, or of fewer where the rendering was cut."""
    return rf"(?:[{characters}]{{{least},}}|[{characters}]+(?=\.\.\.))"


# What is said without values repeats itself from trace to trace, as keys do; looked at anew it would cost a third of what emitting a
# verdict does.
_REMEMBERED: Final = 1_000
_MOST_REMEMBERED: Final = 300

# Each begins with the hint that it is looked for by, at the beginning of a word; "\n" may stand before it, spelled out by repr or JSON.
_HINTS: Final = re.compile(
    r"[Bb]earer|[Bb]asic|eyJ|-----BEGIN|(?:sk|pk|rk)[-_]|A[KSR][IO]A|AIza|ya29\.|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|hf_|npm_|pypi-|SG\.|://"
)
_SHAPES: Final = re.compile(
    rf"""(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:
        [Bb]earer\ +{_run("A-Za-z0-9._~+/=-", 8)}
      | [Bb]asic\ +(?=[A-Za-z0-9+/]*?(?:[0-9+/=]|[a-z][A-Z]))[A-Za-z0-9+/]{{8,}}={{0,2}}
      | eyJ{_run("A-Za-z0-9_-", 6)}(?:\.[A-Za-z0-9_-]*)*
      | -----BEGIN\ [A-Z0-9\ ]{{0,40}}PRIVATE\ KEY.*?(?:-----END\ [A-Z0-9\ ]{{0,40}}PRIVATE\ KEY[A-Z\ ]{{0,8}}-----|\Z)
      | (?:sk|pk|rk)[-_]{_run("A-Za-z0-9_-", 16)}
      | (?:AKIA|ASIA|AROA){_run("A-Z0-9", 16)}
      | AIza{_run("A-Za-z0-9_-", 30)}
      | ya29\.{_run("A-Za-z0-9_.-", 16)}
      | (?:gh[pousr]_|github_pat_|hf_|npm_){_run("A-Za-z0-9_", 20)}
      | (?:glpat|pypi|xapp|xox[abeoprs])-{_run("A-Za-z0-9_-", 10)}
      | SG\.{_run("A-Za-z0-9_-", 16)}(?:\.[A-Za-z0-9_-]*)?
    )
  | (?<=://)[^\s/:@'"\\]{{0,64}}:[^\s/@'"\\]{{1,200}}(?=@)
    """,
    re.VERBOSE | re.DOTALL,
)

_SEPARATOR: Final = re.compile(r"(?:=>|:=|[:=])[ \t]{0,8}")
# What stands before a separator, read backwards: brackets, the quote that ends a key if one began it, the key.
_BEFORE: Final = re.compile(r"""[ \t]{0,8}[)\]]{0,2}(?P<quote>["']\\*)?(?P<key>[\w.$ -]+)""")
_LOOK_BACK: Final = 80
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+")
_QUOTE: Final = re.compile(r"""[bBrRuU]{0,2}(?P<escapes>\\*+)(?P<quote>["'])""")
_STRUCTURE: Final = re.compile(r"""(?P<escapes>\\*+)(?P<quote>["'])|[\[\](){}]""")
_MEMBER_END: Final = re.compile(r"""[,}\])\n"']""")
_WORD_END: Final = re.compile(r"""[\s&;,"'}\])]|\\[nrt]""")
_LINE_END: Final = re.compile(r"""[\n"']|\\[nr]""")


class Substitution(Protocol):
    """A pattern whose time is linear in the text."""

    def sub(self, replacement: str, text: str, /) -> str:
        """Return the text with each place where the pattern holds replaced."""
        ...


class Redactor:
    """Takes secrets out by rules. Any thread.

    A rule for keys is a word, or several: ``api_key``. It holds for keys that have these words one after the other, in any case and
    spelling (``X-Api-Key``, ``openaiApiKey``, ``APIKEY``), and not for those that merely contain the letters (``max_tokens``).
    """

    def __init__(self, *, keys: Iterable[str] = (), patterns: Sequence[Substitution] = (), defaults: bool = True) -> None:
        """Set up the rules.

        Args:
            keys: rules for keys.
            patterns: what is taken out wherever it stands.
            defaults: whether DEFAULT_KEYS, and the shapes of bearer tokens, private keys, keys of well-known services and passwords
                in URLs hold, too.
        """
        wanted = {tuple(words_of(key)) for key in (*keys, *(DEFAULT_KEYS if defaults else ()))} - {()}
        spelled = sorted({re.escape(joiner.join(words)) for words in wanted for joiner in (" ", "")})
        self._keys = re.compile(rf"(?:^| )(?:{'|'.join(spelled)})(?: |$)") if spelled else None
        self._holds_for = lru_cache(maxsize=_REMEMBERED)(self._is_secret)
        self._patterns = tuple(patterns)
        self._by_shape = defaults
        self._remembered: dict[str, str] = {}  # by whichever thread renders; a lost entry changes nothing

    def in_text(self, text: str) -> str:
        """Return text of ours without what looks like a secret; names of tools and keys of users stand in it."""
        if len(text) > _MOST_REMEMBERED:
            return self._in_text(text)
        found = self._remembered.get(text)
        if found is None:
            found = self._in_text(text)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[text] = found
        return found

    def _in_text(self, text: str) -> str:
        if self._by_shape and _HINTS.search(text):
            text = _SHAPES.sub(MARK, text)
        for pattern in self._patterns:
            text = pattern.sub(MARK, text)
        return text

    def in_value(self, text: str) -> str:
        """Return a rendered value without what looks like a secret, or stands under a key that a rule holds for."""
        return self._in_text(text if self._keys is None else self._without_members(text))

    def _is_secret(self, key: str) -> bool:
        return self._keys is not None and self._keys.search(" ".join(words_of(key))) is not None

    def _without_members(self, text: str) -> str:
        pieces: list[str] = []
        done = 0
        for separator in _SEPARATOR.finditer(text):
            before = _BEFORE.match(text[max(done, separator.start() - _LOOK_BACK) : separator.start()][::-1])
            if separator.start() < done or before is None or not self._holds_for(_key_of(before)):
                continue
            begin = separator.end()
            end = _end_of_value(text, begin, is_quoted=before["quote"] is not None, is_assigned="=" in separator[0])
            if end > begin:
                pieces += (text[done:begin], MARK)
                done = end
        return "".join((*pieces, text[done:])) if pieces else text


def words_of(key: str) -> list[str]:
    """Return the words of a key in lower case; empty if it has neither letters nor digits."""
    return [word.lower() for word in _WORD.findall(key)]


def _key_of(before: re.Match[str]) -> str:
    r"""Return the key that was read backwards, without the letter of an escape such as ``\n`` that stands before it."""
    key = before["key"][::-1]
    return key[1:] if key[0] in "nrt" and before.string[before.end() : before.end() + 1] == "\\" else key


def _end_of_value(text: str, begin: int, *, is_quoted: bool, is_assigned: bool) -> int:
    """Return where the value ends that begins there; the text's end if nothing tells."""
    opening = _QUOTE.match(text, begin)
    if opening is not None:
        return _end_of_quoted(text, opening)
    if text[begin : begin + 1] in {"{", "[", "("}:
        return _end_of_brackets(text, begin)
    stop = (_MEMBER_END if is_quoted else _WORD_END if is_assigned else _LINE_END).search(text, begin)
    return len(text) if stop is None else stop.start()


def _end_of_quoted(text: str, opening: re.Match[str]) -> int:
    for found in _STRUCTURE.finditer(text, opening.end()):
        if _closes(found, opening):
            return found.end()
    return len(text)


def _end_of_brackets(text: str, begin: int) -> int:
    depth = 0
    opening: re.Match[str] | None = None
    for found in _STRUCTURE.finditer(text, begin):
        if opening is not None:
            opening = None if _closes(found, opening) else opening
        elif found["quote"]:
            opening = found
        else:
            depth += 1 if found[0] in "[({" else -1
            if depth == 0:
                return found.end()
    return len(text)


def _closes(found: re.Match[str], opening: re.Match[str]) -> bool:
    r"""Tell whether a quote ends what another one began: it is escaped no more than that.

    A text that ends with a backslash is not told from one that goes on after a quote: ``\\\\"`` is the one in JSON, and the other in JSON
    inside of a Python text. So more is taken out than had to be.
    """
    return found["quote"] == opening["quote"] and len(found["escapes"]) <= len(opening["escapes"])
