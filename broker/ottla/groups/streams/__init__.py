"""Streams groups (KIP-1071): the coordinator knows the topology of a Kafka Streams application and assigns its tasks.

A *topology* has *subtopologies*, each with source topics. A *task* is a subtopology with one partition number. An
*active* task processes records; a *standby* task keeps a copy of the state of a task that is active elsewhere.
*Internal topics* belong to the topology: *repartition topics*, which one subtopology writes and another reads, and
*changelog topics*, which hold the state of a subtopology.

Invariants:

- `group` changes by `replay` only, except what is marked as soft there; `heartbeat` and `target` decide, and return
  records.
- An active task belongs to one process at a time, and a process has at most one copy of a task (`reconciliation`).
- Tasks are assigned only while every topic of the topology exists, with the number of partitions that fits.
- The same requests write the same records as JVM Kafka, the hash included; each loads the log of the other.

Start reading at `service`, then `heartbeat`, `target` and `reconciliation`.

Surprising: the first assignment of a group waits for more members (`streams.initial.rebalance.delay.ms`), and the
response to a heartbeat does not wait for the creation of internal topics: members get their tasks by later ones.

Source: KIP-1071, package org.apache.kafka.coordinator.group.streams of Apache Kafka 4.3.1.
"""
