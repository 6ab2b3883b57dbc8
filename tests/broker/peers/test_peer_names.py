"""Host names of other nodes are resolved ahead: one at a time, each host once per round, and again in the next."""

from typing import Any

from ottla.peers.peer_names import ROUND_MS, SPACING_MS, PeerNames
from ottla.types import Endpoint


class Names:
    """A network that notes what is resolved ahead."""

    def __init__(self) -> None:
        self.resolved: list[str] = []
        self.hosts = ["a", "b"]

    def resolve_ahead(self, endpoint: Endpoint) -> None:
        self.resolved.append(endpoint.host)


def run(part: PeerNames, now_ms: int, until_ms: int) -> int:
    """Tick the part whenever it is due; return how often."""
    ticks = 0
    while True:
        due_ms = part.next_deadline_ms()
        assert due_ms is not None
        if due_ms > until_ms:
            return ticks
        part.tick(max(now_ms, due_ms))
        ticks += 1


def test_each_host_is_resolved_once_per_round() -> None:
    names: Any = Names()
    part = PeerNames(names, lambda: [Endpoint(host, port) for host in names.hosts for port in (9092, 9093)])

    part.tick(0)
    first = list(names.resolved)
    run(part, 0, SPACING_MS)
    in_one_round = sorted(names.resolved)
    names.hosts.append("c")
    run(part, SPACING_MS, ROUND_MS - 1)
    before_the_next = sorted(names.resolved)
    ticks = run(part, ROUND_MS, ROUND_MS + 5 * SPACING_MS)

    assert len(first) == 1
    assert in_one_round == before_the_next == ["a", "b"]
    assert sorted(names.resolved[2:]) == ["a", "b", "c"]
    assert ticks == 3


def test_node_without_others_looks_again_in_the_next_round() -> None:
    names: Any = Names()
    part = PeerNames(names, lambda: [])

    assert run(part, 0, 10 * ROUND_MS) == 11
    assert names.resolved == []
