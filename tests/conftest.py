"""What holds for every test: nothing from the developer's environment, and hypothesis at the same pace everywhere."""

from __future__ import annotations

import asyncio
import os

from hypothesis import HealthCheck, settings

# Variables of OpenTelemetry and of ours would change what the SDK and the settings do. Set by no fixture, so that subprocesses and
# modules that read them at import see none either.
for _name in [name for name in os.environ if name.startswith(("OTEL_", "PYTHONWARNINGS"))]:
    del os.environ[_name]

# pytest-asyncio 1.3, the one for the lowest pytest, opens an event loop before the first async test of a process, to put it back later,
# and nobody closes it. Its sockets are found by the garbage collector when a later test calls asyncio.run, and blamed on whoever runs then.
# Where it is said that there is none, it opens none.
asyncio.set_event_loop(None)

# No deadline, and no check on how long examples take to be drawn: both depend on the machine's other work. CI draws the same examples
# each time, so that a failure there is a failure of the change; developers draw new ones.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
