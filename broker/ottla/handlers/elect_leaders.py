"""ElectLeaders (api key 43, v0-v2): elect preferred or unclean leaders (KIP-460).

v0 only preferred ones, and no top-level error; v1 election_type; v2 flexible. Decided by
`ottla.controller.leader_elections`. Source: ElectLeadersRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


@serves(api_key=43, versions=range(0, 3))
def elect_leaders(context: RequestContext, request: ElectLeadersRequest) -> Delayed[Message]:
    """Pass the request on to the active controller."""

    def fit(response: Message) -> Message:
        assert isinstance(response, ElectLeadersResponse)
        if context.api_version == 0:
            # There is no place for it; the partitions carry the error too.
            response.error_code = 0
        return response

    return ask_controller(context, request, requires=Operation.ALTER).then(fit)
