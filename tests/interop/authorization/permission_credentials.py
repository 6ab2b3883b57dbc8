"""Rows of the permission matrix about SCRAM credentials, delegation tokens, and client metrics (no permission)."""

from permission_requests import always
from permission_row import OWNER, Row

from ottla.types import Uuid
from ottla.wire.messages.registry import ApiKey

_A = ApiKey
_BOB = dict(zip(("principal_type", "principal_name"), OWNER.split(":"), strict=True))

_INSTANCE = Uuid(b"a client's ident")
"""One client: JVM Kafka keeps every instance that a connection has named, Ottla keeps the last one.

A request for the subscription after a push that failed for it is not throttled, so the rows can be repeated.
"""

CLIENT_METRICS_ROWS = (
    Row(api_key=_A.GET_TELEMETRY_SUBSCRIPTIONS, name="", values=always(client_instance_id=_INSTANCE)),
    Row(
        api_key=_A.PUSH_TELEMETRY,
        name="for a subscription that does not exist",
        values=always(client_instance_id=_INSTANCE, subscription_id=1, metrics=b""),
    ),
)

DESCRIBED_TOKEN_ROWS = (
    Row(api_key=_A.DESCRIBE_DELEGATION_TOKEN, name="all", versions=(1,), values=always(owners=None)),
    Row(api_key=_A.DESCRIBE_DELEGATION_TOKEN, name="of bob", values=always(owners=[_BOB])),
    Row(api_key=_A.DESCRIBE_DELEGATION_TOKEN, name="without owners", values=always(owners=[])),
)
"""Of brokers: Kafka's controllers advertise this API and do not serve it."""

CREDENTIAL_ROWS = (
    Row(
        api_key=_A.ALTER_USER_SCRAM_CREDENTIALS,
        name="",
        values=always(
            deletions=[{"name": "nobody", "mechanism": 1}],
            upsertions=[
                {"name": "weak", "mechanism": 1, "iterations": 1, "salt": b"salt", "salted_password": b"salted"}
            ],
        ),
    ),
    Row(
        api_key=_A.CREATE_DELEGATION_TOKEN,
        name="for bob",
        values=always(owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=1_000_000),
    ),
    Row(
        api_key=_A.CREATE_DELEGATION_TOKEN,
        name="renewed by a group",
        values=always(renewers=[{"principal_type": "Group", "principal_name": "g"}]),
    ),
    Row(api_key=_A.RENEW_DELEGATION_TOKEN, name="forged", versions=(1,), values=always(hmac=b"forged")),
    Row(
        api_key=_A.EXPIRE_DELEGATION_TOKEN,
        name="forged",
        versions=(1,),
        values=always(hmac=b"forged", expiry_time_period_ms=-1),
    ),
)
