"""Implementations of the ports: Kubernetes, one machine, and Kafka's protocol."""
