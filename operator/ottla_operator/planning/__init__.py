"""Planners: from the spec and the observed state of an object to the steps that close the gap. Pure: no I/O, no clock.

Terms:
- *Plan*: steps in order, an *obstacle* (why they stop short of the spec), and the *operation* in progress
  (`plan.Plan`).
- *Step*: one change through a port; its ``str`` is what logs and Events show (`steps`).
- *Observed*: the input besides the spec: nodes, the brokers' view, Secrets. Time and randomness are arguments.
- *Precedence*: the older of two objects that claim one topic or principal wins (`precedence`).

Invariants: the same input gives the same plan. Nothing is remembered between two plans except the records in the
status, which are written before the first step: an operator that is killed at any point continues where it was. A plan
with a `Rejected` obstacle has no steps. No step prints a password or a key.

Start with `plan`, then `topic.plan`, which is the smallest planner, and `cluster.plan` with its ordered sub-planners.

Surprising: a plan goes only up to where the next observation is needed; most reconciliations of a long operation have
one step. The planners are tested by a simulator with planted mutations (`tests/simulator/mutations`): a change of the
order of steps that looks harmless usually breaks an invariant after a crash.
"""
