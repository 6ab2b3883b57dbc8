"""Steps: each is one call of a port, and prints as what it does."""
