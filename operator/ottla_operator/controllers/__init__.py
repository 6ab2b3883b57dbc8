"""Reconcilers: one per kind, the executor of plans, and the status."""
