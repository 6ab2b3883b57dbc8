"""Client connections of a node, from bytes to requests and back, without sockets: the driver delivers the bytes.

Terms: a *frame* is a size and as many bytes, one request. A *slice* is the part of a loop iteration that one connection
(200 us), or one handler that runs as `Steps` (100 us), has before others are served. A connection is *blocked* while no
further request of it is handled: its response is pending, its peer does not read its responses, its client is
throttled, or others are served first. It *waits* while there is no memory for its next frame.

Invariants:

- Responses leave in the order of the requests of their connection.
- A frame is a view that is valid only while it is handled; a Produce that is handled in slices keeps it
  (`Connection.keep_frame`).
- No client delays others by more than a slice, however many requests it pipelines or entries it lists.
- Bytes that stay in memory are counted in a `RequestMemory`; a frame for which there is no capacity is not read.
- The controllers' and the inter-broker listeners have their own memory and are exempt from the limits of clients.

Start with ``README.md`` (one picture), then `connection`, `pipeline`, `connection_manager`.

Surprises: requests behind an acks=all Produce are served while it waits (`response_queue`), unlike in Kafka. A
blocked connection stops reading, so TCP slows its peer down. Ports are open before the broker is unfenced;
connections to it are closed at once until then.
"""
