"""Pure planning."""
