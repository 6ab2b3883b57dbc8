"""AlterUserScramCredentials (api key 51, v0): set or remove users' SCRAM credentials (KIP-554).

Decided by `ottla.controller.scram`. Source: AlterUserScramCredentialsRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest


@serves(api_key=51, versions=range(0, 1))
def alter_user_scram_credentials(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Delayed[Message]:
    """Pass the request on to the active controller."""
    return ask_controller(context, request, requires=Operation.ALTER)
