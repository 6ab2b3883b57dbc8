"""Where nodes are that run nowhere."""

from ottla_operator.model.manifest import Pool
from ottla_operator.model.node_doors import Place


def place_of(_pool: Pool, _index: int, node_id: int) -> Place:
    """Return a place on a host of the node's own, with everybody's usual ports."""
    return Place(
        listen_host="",
        client_host=f"host-{node_id}",
        client_port=9092,
        controller_port=9093,
        admin_port=8080,
        log_directory="/d",
    )
