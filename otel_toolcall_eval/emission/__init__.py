"""What leaves us: scores as metrics, log events and span events.

In: trace reports, and counts that the pipeline keeps. Out: telemetry, through providers of the user's or of ours.
May not: decide anything, hold a trace up, or send what a user recorded (unless the settings ask for values).
"""
