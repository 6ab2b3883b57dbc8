"""Planning of one Topic: creation, adoption, configs, partitions, replication factor, and deletion.

Terms: *adoption*: a Topic takes over a topic that it did not create; the differences are named before they are removed
(`plan.adoption`). *Retained*: the topic stays when its object is deleted (``deletionPolicy: Retain``).

Invariants: a topic is deleted only with the id in ``status.topicId``: a recreated topic of the same name is kept.
Partitions are never removed; fewer in the spec are a rejection. Configs come before partitions, so that a rejected
config leaves no new partitions. Throttled-replica lists are left alone: the Cluster or an administrator set them.

Start with `plan.plan_topic`. `ObservedTopic.view` is there only when the replication factor may have to change.

Surprising: a replication factor that needs more brokers than exist is a rejection, unless the Cluster is to have them
soon; then it is a wait. Which of two objects has a topic is decided in `planning.precedence`, not here.
"""
