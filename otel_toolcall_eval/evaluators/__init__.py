"""The four evaluators: how often, in which order, with which arguments tools were called, and what they returned.

In: one evaluator's criteria, a call log. Out: a score with its bounds, outcomes and justification. May not: know another
stage, ask for the time, change what it is given.
"""
