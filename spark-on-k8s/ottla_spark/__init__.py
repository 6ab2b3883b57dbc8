"""The flights pipeline: a Kafka topic to Delta tables with PySpark, and the check that the result is exact.

The stages are *bronze* (records as they came, with their position), *silver* (typed flights, each once) and *gold*
(delay statistics per origin and hour). `feed` produces the events, `verify` compares gold with pandas on the same CSV.
Nothing here depends on Ottla: any broker that speaks Kafka's protocol will do. ``spark-on-k8s/README.md`` is the
manual.

Terms: *dirt* is records that `feed` adds to the events (duplicate, malformed, late), counted by kind; a *dead letter*
is a malformed or late record, written to a topic of its own; the *account* says how many records became a flight, a
duplicate, malformed or late; the *digest* of gold is the SHA-256 of its rows.

Invariants:

- The same log gives the same tables, for any batches, restarts and read rates. Each stage is idempotent: bronze appends
  a batch once (Delta transaction ids), silver inserts new flight ids only, gold recomputes the windows that it touches.
- Every record of bronze is in exactly one line of the account. Dead letters are at least once, and name their source.
- A stage reads only the table before it, so silver and gold can be rebuilt from bronze.

Start reading at `settings`, then `bronze`, `silver`, `gold`, and `run`, which runs them; `pipeline` is the command
line.

Surprising: lateness is decided per record, from its timestamps, not by Spark's watermark, which depends on where
batches end. pyspark is imported inside of functions, so that `feed`, `verify` and `plot` work without it. Started by
spark-submit, `pipeline` uses that session; started by python it starts Java itself (`java`, `jars`, `session`).
"""
