"""Nodes as processes of the local host; objects, Secrets and plans as files of a state directory.

Terms: *state directory*: stands in for the API server (`state_directory`); one command at a time changes it, under a
lock. *Process record*: ``process.json`` with process id, start time and revision of a node.

Invariants: files are replaced in one step, so a reader never sees half of one; a process is identified by id and start
time, so a reused id is never signalled; Secrets are readable by their owner only; a node's data is never removed.

Start with `host`, then `state_directory` and `processes`.

Surprising: nodes outlive the command that started them. A configuration is published only after ``ottla format`` has
accepted it. There is no disruption budget and no cert-manager here: these calls raise `HostError`.
"""
