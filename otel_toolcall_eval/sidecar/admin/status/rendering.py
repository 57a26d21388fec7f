"""Makes pages of templates.

Choice: Jinja2, which escapes all that it is given unless told otherwise, reports what it does not know (StrictUndefined), and keeps
markup in files that people can read; it is in the ``sidecar`` extra, pure Python with one dependency. Rejected: ``html.escape`` around
pieces of text, where one forgotten call is a hole, and ``string.Template``, which escapes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from otel_toolcall_eval.sidecar.admin.status import labels

if TYPE_CHECKING:
    from collections.abc import Mapping


class Templates:
    """The templates of the pages. From any thread."""

    def __init__(self, everywhere: Mapping[str, object]) -> None:
        """Let all templates know these, and the words."""
        self._environment = Environment(
            loader=PackageLoader("otel_toolcall_eval.sidecar.admin.status"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "duration": labels.duration,
            "machine_moment": labels.machine_moment,
            "moment": labels.moment,
            "score": labels.score,
            "shown": labels.shown,
            "size": labels.size,
        }
        self._environment.globals |= {**everywhere, "doubt_words": labels.DOUBTS, "trigger_words": labels.TRIGGERS}

    def render(self, name: str, context: Mapping[str, object]) -> str:
        """Return a page, or a part of one."""
        return self._environment.get_template(name).render(context)
