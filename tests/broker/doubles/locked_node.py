"""A node in memory that requires SASL on one listener, and requests that show what a client of it may do."""

from ottla.errors import ErrorCode
from ottla.sasl.scram import ScramMechanism, new_salt, salted_password
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_node import LOCKED, Client, RunningNode, World
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

EVERYTHING = MetadataRequest(topics=[])


def start(world: World, **changes: str) -> RunningNode:
    """Start the node with ``LOCKED`` and these properties."""
    return world.start_node(**(LOCKED | changes))


def is_served(client: Client) -> bool:
    """Return whether the node responds to a request that needs authentication on a listener with SASL."""
    return client.ask(EVERYTHING, MetadataResponse, 9).cluster_id is not None


def set_credential(
    running: RunningNode, mechanism: ScramMechanism, user: str, password: str, iterations: int = 4096
) -> None:
    salt = new_salt(SeededRandom(2).randrange)
    salted = salted_password(mechanism, password, salt, iterations)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    response = running.connect().ask(request, AlterUserScramCredentialsResponse, 0)
    assert [each.error_code for each in response.results] == [ErrorCode.NONE]
