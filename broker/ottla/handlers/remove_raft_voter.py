"""RemoveRaftVoter (api key 81, v0): remove a voter from the metadata quorum (KIP-853).

Decided by `ottla.raft`.
Source: RemoveRaftVoterRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest


@serves(api_key=81, versions=range(0, 1))
def remove_raft_voter(context: RequestContext, request: RemoveRaftVoterRequest) -> Delayed[Message]:
    """Let the leader of the quorum, on any node, remove the voter."""

    def decide(_: Message) -> Delayed[Message]:
        return context.services.raft.handle_remove_voter(request).then(lambda response: response)

    return forward_to_controller(context, request, decide, requires=Operation.ALTER)
