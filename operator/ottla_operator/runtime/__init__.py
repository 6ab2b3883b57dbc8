"""The process around the reconcilers."""
