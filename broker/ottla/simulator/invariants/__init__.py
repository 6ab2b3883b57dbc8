"""Invariants: conditions that hold in a cluster after every event, under all faults; one small class each.

Terms: the *ledger* has every record that was once below a high watermark; a partition is *excused* when the loss of
disks made it impossible to keep them.

Start reading at `state_observer` (`Invariant` and its events), then `cluster_invariants`. Surprising: the
observer compares each state with the last observed one, so an event that changes nothing costs next to nothing.
A new invariant is a class here and a row in the list of `runs.simulation`.
"""
