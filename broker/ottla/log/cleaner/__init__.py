"""Compaction of logs with ``cleanup.policy=compact``: of each key, the last record stays.

A compacted log has a clean section, in which an earlier cleaning has left one record for each key, and after it a dirty
one. A cleaning reads the dirty section into an `offset_map` (key to last offset), then copies all segments up to there,
without the records that the map has a later one for. Neighbouring segments are merged while they fit into one
(`segment_groups`). Reading order, from the pure core outwards:

- `offset_map`: bounded by log.cleaner.dedupe.buffer.size. If it is full, the cleaning ends there, and the next one
  continues.
- `batch_filter`: what is left of one batch: tombstones, markers, the last batches of live producers.
- `cleaned_transactions`: aborted data, and markers that are not needed any more.
- `cleaned_segment`: the ``.cleaned`` files of a segment; `cleaning`: one cleaning, in slices, in a process of its own.
- `dirty_log`: what may be cleaned, and how dirty it is; `log_cleaner`: selects the filthiest log, runs, throttles, and
  replaces the segments on the loop (`LocalLog.replace_segments`, `interrupted_work` after a crash).

Terms are Kafka's: first dirty offset, first uncleanable offset, cleanable ratio, delete horizon.

Invariants:

- Records keep their offsets, batches their ranges of offsets and sequence numbers; the log start does not move.
- Never cleaned: the active segment, records at or above the last stable offset (and so the high watermark), or above
  the recovery point, where a gap could be mistaken for a lost write.
- The work off the loop uses no object of the loop: plan and results are pickled, and it opens files by path. The loop
  checks, before it replaces segments, that they are still the same and that nothing was truncated since: a record that
  was removed because of a later one must not outlive it.
- A corrupt batch makes its partition uncleanable until the node restarts; the others go on being cleaned.

Source: LogCleaner, LogCleanerManager and Cleaner of Apache Kafka 4.3; KIP-354 (max lag), KIP-534 (delete horizons).
"""
