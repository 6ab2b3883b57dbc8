"""Steps of plans: each is one call of a port, and its ``str`` describes it in logs, Events and dry runs.

Terms: `topic.TopicStep`, `cluster.ClusterStep` (of which some go to the host and some to the brokers), `user.UserStep`
and `certificate.CertificateStep` are the unions by kind of object; `secret` has the steps that two kinds share.

Invariants: steps are immutable values, compared by equality in tests; every step is safe to repeat, because an operator
that was killed after it executes it again; none prints a password or a key. A step that stops or restarts a node
carries the uid of the observed run.

Start with `topic`, then `cluster`; `controllers.executor` executes them.

Surprising: `Publish` is one step for all objects of a host that differ; `ReassignPartitions` starts moves and does not
wait for them: the next observations do.
"""
