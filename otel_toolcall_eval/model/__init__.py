"""Values that move through the pipeline.

In: nothing. Out: frozen records. May not: import another room, do I/O, read a clock.
"""
