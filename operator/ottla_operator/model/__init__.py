"""What manifests say and ask for: no I/O, no clock, no chance."""
