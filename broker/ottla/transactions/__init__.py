"""Producer ids. The transaction coordinator begins here.

**Terms.** A *producer id* is what a leader recognises the duplicates of an idempotent producer by; its *epoch* fences
older instances. The controller hands out ids in *blocks* of a thousand to brokers.

**Start reading** at `producer_ids.py`, the only module so far: `ProducerIds` hands out ids of this node's blocks and
requests the next block before the current one is used up.

**Invariant.** No id is handed out twice: a block belongs to one incarnation of one broker, and the rest of it is lost
when that ends.

**Not here yet.** Transactions: a coordinator on `coordinator/` with ``__transaction_state`` as internal topic.
The logs' part of transactions (aborted ranges, last stable offset) is in `log/`; offsets that a transaction commits are
in `groups/offsets/store.py`.
"""
