"""AddRaftVoter (api key 80, v0-v1): add a controller to the voters of the metadata quorum (KIP-853).

v1 ack_when_committed: false responds before the change is committed. Decided by `ottla.raft`.
Source: AddRaftVoterRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest


@serves(api_key=80, versions=range(0, 2), has_few_entries=True)
def add_raft_voter(context: RequestContext, request: AddRaftVoterRequest) -> Delayed[Message]:
    """Let the leader of the quorum, on any node, add the voter."""

    def decide(_: Message) -> Delayed[Message]:
        return context.services.raft.handle_add_voter(request).then(lambda response: response)

    return forward_to_controller(context, request, decide, requires=Operation.ALTER)
