"""Where spans come from.

In: requests, files, spans of this process. Out: decoded spans, and bindings, for the worker.
May not: judge, hold spans back, import another edge.
"""

from __future__ import annotations
