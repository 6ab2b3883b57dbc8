"""Client connections of a node, from bytes to requests and back, without sockets: the driver brings the bytes.

Terms: a *frame* is a size and as many bytes, one request. A *slice* is the part of a loop iteration (100 us) that one
connection, or one handler that runs as `Steps`, has before others are served. A connection is *blocked* while no
further request of it is handled: its response is not there yet, its peer does not take what was sent, its client is
throttled, or others are served first. It *waits* while there is no memory for its next frame.

Invariants:

- Responses leave in the order of the requests of their connection.
- A frame is a view that is valid only while it is handled; a Produce that is handled in slices keeps it
  (`Connection.keep_frame`).
- No client delays others by more than a slice, however many requests it sends ahead or entries it names.
- Whatever stays in memory is counted in a `RequestMemory`; a frame that finds no room is not read.
- Listeners of controllers and between brokers have their own memory and are above the limits of clients.

Start with ``README.md`` (one picture), then `connection`, `pipeline`, `connection_manager`.

What surprises: requests behind an acks=all Produce are served while it waits (`response_queue`), unlike in Kafka. A
blocked connection stops reading, so TCP slows its peer down. Ports are open before the broker is unfenced;
connections to it are closed at once until then.
"""
