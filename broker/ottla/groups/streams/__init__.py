"""Streams groups (KIP-1071): the coordinator knows the topology of a Kafka Streams application and assigns its tasks.

A *topology* has *subtopologies*, each with source topics. A *task* is a subtopology with one partition number. An
*active* task processes records; a *standby* task keeps a copy of the state of a task that is active elsewhere.
*Internal topics* belong to the topology: *repartition topics*, which one subtopology writes and another reads, and
*changelog topics*, which hold the state of a subtopology.

Source: KIP-1071, package org.apache.kafka.coordinator.group.streams of Apache Kafka 4.3.1.
"""
