"""AlterUserScramCredentials (api key 51, v0): set or remove users' SCRAM credentials (KIP-554).

Decided by `ottla.controller.scram`. Source: AlterUserScramCredentialsRequest.json of Apache Kafka 4.3.
"""

from types import SimpleNamespace

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_CHANGES = Entries("changes", "results", key="name")


@serves(api_key=51, versions=range(0, 1))
def alter_user_scram_credentials(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller; no user may be in both lists, so they are split together."""

    def forward(part: SimpleNamespace) -> Delayed[Message]:
        changes = AlterUserScramCredentialsRequest(
            deletions=[each for each in part.changes if isinstance(each, ScramCredentialDeletion)],
            upsertions=[each for each in part.changes if isinstance(each, ScramCredentialUpsertion)],
        )
        return forward_to_controller(context, changes, requires=Operation.ALTER)

    return forward_in_parts(SimpleNamespace(changes=[*request.deletions, *request.upsertions]), _CHANGES, forward)
