"""The command line: one module for each command.

In: arguments, files. Out: text for people, JSON for programs, an exit code. May not: exit the process, evaluate anything itself.
"""
