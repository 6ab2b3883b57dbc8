"""Who the operator talks to: the Kubernetes API server, and brokers by Kafka's Admin protocol."""
