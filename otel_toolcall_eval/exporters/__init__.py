"""What leaves us: scores as metrics, log events and span events; and, in the sidecar, what was received, forwarded as it came.

In: trace reports, counts that the pipeline keeps, bodies of requests. Out: telemetry, through providers of the user's or of ours.
May not: decide anything, hold a trace up, or send what a user recorded (unless the settings ask for values).
"""
