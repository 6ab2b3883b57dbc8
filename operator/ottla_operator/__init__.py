"""The Kubernetes operator, and the same reconciliation on a laptop.

- `model`: manifests, their schemas and rules, and what they ask for, as pure functions;
- `reconcile`: observed state and spec in, ordered steps out; the executor carries them out through two ports;
- `hosts`: the port that runs nodes, on Kubernetes and as local processes;
- `clients`: the Kubernetes API and Kafka's Admin;
- `handlers`: kopf wiring, which only marks keys dirty;
- `local`: apply, get, delete, up, down and status for the command line.
"""
