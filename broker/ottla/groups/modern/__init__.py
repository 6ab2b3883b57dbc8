"""What consumer groups, share groups and streams groups have in common; most of it is Kafka's ModernGroup.

They have a *group epoch* that changes with members, subscriptions and topics, a *target assignment* for an epoch, and
members that reach it by heartbeats. These (`group`), the topics of a group, the hash of them, the counts of
subscriptions, the look-up of groups (`groups`), the replay of records, the jobs that compute assignments in slices and
the timers of members are the same; they know no protocol.

Source: ModernGroup of Apache Kafka 4.3.
"""
