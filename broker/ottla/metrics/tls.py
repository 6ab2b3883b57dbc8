"""What came of TLS on one node, as plain integers: the loop counts, the metrics page reads."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class TlsMetrics:
    """Counters only grow. A listener that this node dials counts under its name as one that it opens."""

    handshakes: Counter[str] = field(default_factory=Counter)
    """Finished, by listener."""
    failed_handshakes: Counter[str] = field(default_factory=Counter)
    """Refused by either side, hung up, or not finished in time; by listener."""
    open_handshakes: int = 0
    """Under way now."""
    reloads: int = 0
    failed_reloads: int = 0
    """Certificates that changed and could not be used."""
    certificates_expire_at_ms: dict[str, int] = field(default_factory=dict)
    """When the first certificate of a listener's chain ends, by listener; Unix time."""
