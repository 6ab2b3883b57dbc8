"""Implementations of the ports: `kubernetes` and `local` run nodes, `kafka` speaks to brokers.

Terms: each adapter implements protocols of `ports`; an *object store* is the API server or a stand-in for it.

Invariants: adapters decide nothing: they observe, and execute single steps, each safe to repeat. Errors are translated
into `errors` at this boundary: `HostError` if waiting does not help, `ApiError` or OSError if it may,
`BrokerUnreachableError` for every failure of a connection to brokers.

Start with `kubernetes.host` or `local.host`, which implement the same port; `kafka.ottla_admin` for brokers.

Surprising: both hosts read the certificates that nodes present over TLS connections (`kafka.presented_certificates`),
because nothing else shows that a node has reloaded its certificate.
"""
