"""Reading and comparing payload values.

In: recorded text, decoded values. Out: decoded values, hashable identities. May not: run code, recurse without bound.
"""
