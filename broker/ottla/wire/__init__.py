"""Kafka's binary formats: messages, record batches, and the codes that both contain. Pure: no I/O, no clock.

- `codec`: declares messages and generates the encode and decode functions of each version.
- `messages`: one module per API of Kafka 4.3, plus the records of the internal topics.
- `records`: record batches (magic 2), and message sets of magic 0 and 1 for reading.
- `acl_codes`, `acl_filter`: codes and filters of access control entries, as requests and metadata records have them.
- `client_id`: client ids that are not UTF-8.
- `error_response`: the response that has one error in every part of a request.

Terms: a message has an *API key* and *versions*; a *flexible* version (KIP-482) has compact lengths and tagged fields.
A *splice* is record data that is sent without a copy into the encoded bytes. A *view* refers to the caller's buffer.

Invariants:

- Every length and count is compared with the bytes that are left before memory is allocated for it, and the entries of
  all arrays of a client's message are limited together (``ottla.request.entries.max``).
- Malformed bytes raise `ottla.errors.ProtocolError` (messages) or `CorruptRecordError` (records).
- A value that the version cannot represent raises ValueError when it is encoded; it is never dropped silently, unless
  the field is ``ignorable``.

Start with `codec.message`, then any module of `messages`, then `records.batch`. Surprising: encoders and decoders are
generated source, compiled on the first use of a version; a record batch is read in place, and its producer's header is
only trusted after `records.records_walk` or `records.contiguous_records` has checked the records.
"""
