"""Ports of the operator, and what is observed through them."""
