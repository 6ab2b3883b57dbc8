"""The Kubernetes operator, and the same reconciliation on a local host.

Layers, each of which imports only those below (`main` and `local` are on top):
- `controllers`: one reconciler per kind, the executor of plans, and the status of objects;
- `runtime`: leader election, watches, the work queue, probes and metrics;
- `adapters`: Kubernetes, the local host, and Kafka's protocol; `planning`: pure planners, beside them;
- `ports`: protocols of hosts, brokers and stores, and the values observed through them;
- `model`: manifests, desired nodes, Kubernetes objects and conditions, as pure values;
- `errors`: by who has to act next.

Terms: a *reconciliation* observes an object, plans, executes the steps, and observes again; its result is a *readiness*
and status fields. A *host* runs nodes. *Members* are the Topics and Users of a Cluster.

Invariants: one operator writes at a time (leadership), and one operator owns a Cluster (``status.operator``); nothing
is remembered between reconciliations outside of the objects' status; a rejected change changes nothing.

Start with `controllers.topic.reconcile`, the smallest reconciler, and `planning.topic.plan`; operator/README.md has the
reading order. `local` is the interface of the ``ottla`` command line: apply, get, delete, up, down and status.

Surprising: the same planner, executor and status run on Kubernetes and on a local host; only hosts and stores differ.
"""
