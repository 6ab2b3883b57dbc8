"""The `BrokerAdmin` port over Ottla's own client, that is, Kafka's protocol."""
