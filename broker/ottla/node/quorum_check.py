"""`check_quorum`: compares a node's quorum configuration with the voters in its metadata log, before it takes part.

Source: KafkaRaftServer and QuorumConfig of Apache Kafka 4.3, which detect some of this later or not at all.
"""

import logging

from ottla.config.node_config import NodeConfig
from ottla.errors import ConfigurationError
from ottla.raft.voter_set import VoterSet
from ottla.types import Uuid, format_uuid

logger = logging.getLogger(__name__)


def check_quorum(config: NodeConfig, voters: VoterSet, *, kraft_version: int, directory_id: Uuid) -> None:
    """Reject a configuration that contradicts the voters of the log; any is valid while the log has none.

    Raises:
        ConfigurationError: the message has the contradiction, and what to do.
    """
    if not voters.voters:
        return
    mine = voters.voters.get(config.node_id)
    if mine is not None and not config.is_controller:
        raise ConfigurationError(
            f"node {config.node_id} is a voter of the metadata quorum {voters.node_ids}, but process.roles does not "
            "have controller: add it, or take the node out with `kafka-metadata-quorum remove-controller` first"
        )
    if kraft_version == 0:
        return
    if config.controller_quorum_voters and [each.node_id for each in config.controller_quorum_voters] != list(
        voters.node_ids
    ):
        raise ConfigurationError(
            f"controller.quorum.voters names {[each.node_id for each in config.controller_quorum_voters]}, but the "
            f"voters are kept in the metadata log and are {list(voters.node_ids)}: remove controller.quorum.voters and "
            "set controller.quorum.bootstrap.servers"
        )
    if mine is not None and mine.directory_id != directory_id:
        logger.warning(
            "the quorum has a voter %d with the metadata directory %s; this node's is %s: formatted again, it is an "
            "observer until it replaces the old voter (kafka-metadata-quorum remove-controller, add-controller)",
            config.node_id,
            format_uuid(mine.directory_id),
            format_uuid(directory_id),
        )
    listener = config.controller_listener_names[0]
    if not any(listener in each.listeners for each in voters.voters.values()):
        known = sorted({name for each in voters.voters.values() for name in each.listeners})
        raise ConfigurationError(
            f"no voter of the metadata quorum has the listener {listener}, the first of controller.listener.names; "
            f"they have {', '.join(known)}: name that one first"
        )
