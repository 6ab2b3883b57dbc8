"""Brokers, and the certificates that they present, over Ottla's own client."""
