"""Counts the instructions of a program with valgrind's callgrind, by section of it and by function of C.

A count is the same in each run within a few in a thousand, however busy the machine is; seconds are not. It leaves out what waiting for
memory takes, and the system. A program takes some fifty times as long under callgrind.

Sections: the program calls ``os.ctermid``, as which the C library's function of that name is called by nothing else. At each call callgrind
writes down what was counted since the one before. Rejected: two runs of unlike length and their difference, which starts Python once more
for each figure; callgrind's own requests, which are macros of C.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

INTERPRETER: Final = "_PyEval_EvalFrameDefault"
_NAMELESS: Final = ", no names"
_COST: Final = re.compile(r"[\d+*-]")
_PART: Final = r"\.(?:cold|part|isra|constprop|lto_priv)(?:\.\d+)*"
_VARIANT: Final = re.compile(_PART)
_MYPYC: Final = re.compile(rf"CPy(?:Def|Py)_(.+?)(?:{_PART})*")
_RECURSION: Final = re.compile(r"'\d+$")
_MOST_ROUNDS: Final = 50
"""Helpers call helpers; each round passes costs on by one call. What goes in circles by then is less than one in a thousand."""


class Sections:
    """What a program that is counted says of itself."""

    def __init__(self) -> None:
        """Begin outside of all sections."""
        self._names = [""]

    def begin(self, name: str = "") -> None:
        """End the section before, and begin another; the nameless one is not counted. Costs 1,000 instructions."""
        self._names.append(name)
        os.ctermid()

    def end(self, **more: object) -> None:
        """End the last section, and tell the counting process the names, and what else it should know."""
        self.begin()
        sys.stdout.write(json.dumps({**more, "sections": self._names}) + "\n")


def is_there() -> bool:
    """Tell whether there is a valgrind."""
    return shutil.which("valgrind") is not None


@dataclass(frozen=True, slots=True)
class Costs:
    """Instructions of one section.

    Attributes:
        own: of each function itself, those that it calls left out.
        calls: from one function to another, all that came of it in the callee.
    """

    own: Counter[str] = field(default_factory=Counter)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: Costs) -> None:
        """Count another section in."""
        self.own.update(other.own)
        self.calls.update(other.calls)

    def charged(self, bears: Callable[[str], bool]) -> Counter[str]:
        """Return instructions of the functions that bear costs, with those of all others, which fall on their callers.

        What a function took that several call is shared among them as what came of their calls is: callgrind knows no more.
        """
        callers: dict[str, dict[str, int]] = {}
        for (caller, callee), taken in self.calls.items():
            if caller != callee and taken:
                callers.setdefault(callee, {})[caller] = taken
        borne: dict[str, float] = {}
        waiting: dict[str, float] = {**self.own}
        for _ in range(_MOST_ROUNDS):
            passed_on: dict[str, float] = {}
            for name, cost in waiting.items():
                if bears(name) or name not in callers:
                    borne[name] = borne.get(name, 0.0) + cost
                    continue
                together = sum(callers[name].values())
                for caller, part in callers[name].items():
                    passed_on[caller] = passed_on.get(caller, 0.0) + cost * part / together
            waiting = passed_on
        return Counter({name: round(cost) for name, cost in borne.items()})


def is_of_mypyc(function: str) -> bool:
    """Tell whether a readable name is that of a function that mypyc compiled, or stands for all interpreted code."""
    return function == INTERPRETER or ("." in function and not function.endswith(_NAMELESS))


def count(*program: str, cwd: Path) -> tuple[dict[str, Costs], dict[str, Any]]:
    """Run a module that uses ``Sections``; return what each took, those of one name together, and what the program said."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counted"
        options = ("--quiet", "--tool=callgrind", "--dump-before=ctermid", "--dump-line=no", f"--callgrind-out-file={file}")
        command = ["valgrind", *options, f"--log-file={file}.log", sys.executable, "-m", *program]
        # With other seeds the texts in a dictionary stand otherwise, and finding them takes more or less.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=cwd, env=environment)
        said: dict[str, Any] = json.loads(done.stdout)
        found: dict[str, Costs] = {}
        for number, name in enumerate(said["sections"], 1):
            if name:
                # The last file has no number: it holds what comes after the last call.
                with file.with_name(f"{file.name}.{number}").open(encoding="utf-8") as lines:
                    found.setdefault(name, Costs()).add(read(lines))
    return found, said


def read(lines: Iterable[str]) -> Costs:
    """Read a file of callgrind; the names are made readable.

    Raises:
        ValueError: the instructions that were read are not those that the file has in total, so its form is not known here.
    """
    names: dict[tuple[str, str], str] = {}
    costs = Costs()
    at = dict.fromkeys(("ob", "fn", "cob", "cfn"), "")
    of_call, total = False, 0
    for line in lines:
        kind, _, rest = line.rstrip("\n").partition("=")
        if _COST.match(line):
            taken = int(line.split()[1])
            caller = readable(at["fn"], at["ob"])
            if of_call:  # what came of a call stands in a line of the same form as what the function takes itself
                costs.calls[caller, readable(at["cfn"], at["cob"] or at["ob"])] += taken
                at["cob"] = ""
            else:
                costs.own[caller] += taken
            of_call = False
        elif kind == "calls":
            of_call = True
        elif kind in at:
            number, _, name = rest.partition(" ")  # a name stands beside its number the first time only
            if name:
                names[kind[-2:], number] = name
            at[kind] = names[kind[-2:], number]
        elif line.startswith("totals:"):
            total = int(line.split()[1])
    if costs.own.total() != total:
        message = f"callgrind counted {total:,} instructions, and {costs.own.total():,} were read: does this valgrind write another form?"
        raise ValueError(message)
    return costs


@cache
def readable(function: str, library: str = "") -> str:
    """Return the name of a function of C as a human would write it.

    Functions that mypyc made are written as in Python: module, class, method; the wrapper by which interpreted code calls one is that
    function, too. A library without names is one function.
    """
    function = _RECURSION.sub("", function)
    if function.startswith("0x"):
        return f"{Path(library).name}{_NAMELESS}"
    if (made := _MYPYC.fullmatch(function)) is None:
        return _VARIANT.sub("", function)
    return made[1].replace("___3_", "\0").replace("___", ".").replace("\0", "___")
