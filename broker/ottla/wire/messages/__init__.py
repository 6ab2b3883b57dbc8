"""The messages of Kafka 4.3: one module per API, named like its key; and the records of the internal topics.

A module of an API (`fetch`, `create_topics`, ...) declares the structs of its request and response, whose fields are
those of Kafka's JSON files in the same order; its docstring has the key, the versions and the JSON files. Others:

- `registry`: `ApiKey`, and `request_type` and `response_type`, which import a module on first use.
- `headers`: request and response headers.
- `control_records`: control records, such as transaction markers and raft's leader changes.
- `metadata_log`: records of ``__cluster_metadata``.
- `group_log`, `share_group_log`, `streams_group_log`: records of ``__consumer_offsets``.
- `transaction_log`, `share_state_log`: records of ``__transaction_state`` and ``__share_group_state``.
- `consumer_protocol`: subscriptions and assignments inside JoinGroup and SyncGroup.
- `stored_data`: messages inside others or in files, such as the principal in Envelope.

Invariants: versions are those that Kafka 4.3 defines, also of APIs that Ottla does not serve; `Message.served_on` names
the listeners. A class is found by its name: ``...Request`` and ``...Response`` with the module's API key. The tests in
``tests/broker/wire/messages/jvm`` compare the bytes of all versions with Kafka's own classes.

To add a version, add its fields with their range (``int32("18+")``) and raise ``versions`` of both classes.
Surprising: decoding leaves a field that the version lacks at its default, and encoding a value other than the default
in such a version is an error unless the field is ``ignorable``. An unstable version (``latest_version_unstable``) is
only advertised if ``unstable.api.versions.enable`` is set.
"""
