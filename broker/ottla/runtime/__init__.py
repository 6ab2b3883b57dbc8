"""The operating system behind `ottla.ports`: sockets, disk, clocks, randomness, threads, processes, memory, signals.

Only this package of the broker does I/O, apart from the admin server, the CLI and the client. The simulator replaces it
as a whole. `assembly.run_node` builds a node from it and runs the process.

Start with `reactor` (the connections of a node), then `event_loop` and `ready_connections` (one iteration and its
order), `link` and `sender` (one socket).

- Link: one connection's socket with its output queue. `acceptor` and `connector` create links, `link_watch` registers
  them for exactly the events they need, `deferred_links` serves those with more work than a time slice, `unsent_limits`
  and `lingering` close those whose peers do not read.
- TLS: `tls_contexts` loads and renews certificates, `handshakes` bounds and runs handshakes on `step_thread`,
  `tls_links` connects them to the reactor, `tls_stream` gives a secured link the methods of a socket.
- Watch: `stall_watch` notices a loop that does not end its iteration. `stall_report` logs what it does,
  `stall_disconnect` shuts down its sockets (decision record 0013), and `disk_wait` has the liveness probe succeed.
- Off the loop: `worker_threads` is the pool behind syncs (`disk`), cold reads (`page_cache`) and `ports.Background`;
  `task_process` runs compaction, which is Python code, in a process of its own (`background`, `task_server`).

Invariants:

- One thread runs the loop, and only it touches links and the node. Other threads return through `EventLoop.post`.
  While the loop is stalled, the watch's thread calls ``shutdown`` on sockets, which changes no state of the loop.
- No call on the loop blocks: no unbounded loop over connections, no read of bytes that only the disk has, no OpenSSL
  handshake, no name resolution. Each piece of work per iteration has a bound in bytes, time or count.
- An unexpected exception costs a connection or one run of a part of the node, never the loop (`defects`).
- A shortage of descriptors, threads or inodes is handled where it occurs, and ends when the shortage ends.

Surprises: there is no asyncio (decision record 0001). Paused reading leaves the socket registered until bytes arrive,
because most pauses are shorter. A selector reports neither bytes that OpenSSL has buffered nor the end of a paused
stream: `Reactor._check_buffered` and `hang_ups` do.
"""
