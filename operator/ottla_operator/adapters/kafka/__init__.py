"""Brokers, over Ottla's own client: Admin calls, and the certificates that nodes present.

Terms: *served certificate*: the one that a listener presents in a TLS handshake. *Caught up*: a replica of the metadata
log that had all records a few seconds before the leader's response.

Invariants: a view is a consistent picture: metadata is awaited up to the quorum's high watermark, and all responses
come from one broker, else `BrokerUnreachableError` is raised. Every call has a time limit, so a reconciliation cannot
block its cluster. Error codes that say that a step is done already are ignored (`ottla_admin`).

Start with `ottla_admin`, then `presented_certificates`; `operator_access` builds the operator's client properties.

Surprising: modules that import TLS are imported inside functions, because most local clusters have no TLS and the
import is slow. A missing quorum leader (`QuorumLostError`) is distinguished from unreachable brokers by the error code.
"""
