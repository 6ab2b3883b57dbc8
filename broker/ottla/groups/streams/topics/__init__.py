"""Configuration of a topology for the topics that exist: its tasks, its internal topics and their partitions.

Only the topics of the cluster determine how many tasks a subtopology has, and how many partitions most internal topics
need. `configure` puts it together: `repartition` derives numbers of partitions along the topology, `copartition` makes
those equal that have to be, `missing` finds the internal topics to create.

The results depend on the order in which Java iterates over hash tables, where several subtopologies write the same
topic or a topology has several problems. It is reproduced (`ottla.purgatory.hash_order`): the results are Kafka's.
"""
