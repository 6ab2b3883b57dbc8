"""The health of the cluster: its quorum, brokers and partitions, and the clock skew to this host."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from ottla.cli.doctor_checks.finding import Finding, Status
from ottla.client.admin import AdminClient
from ottla.client.results import BrokerDescription, QuorumDescription, TopicDescription
from ottla.errors import ErrorCode, KafkaError, OttlaError

CLOCK_SKEW_MS_MAX: Final = 5_000
SHOWN_MAX: Final = 5
QUORUM_STEP: Final = "check that a majority of the controllers runs and is connected: their logs have the voters"
_AUTHORIZATION_ERRORS: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


async def check_health(
    admin: AdminClient, brokers: Sequence[BrokerDescription], new_client: Callable[[], AdminClient]
) -> AsyncIterator[Finding]:
    """Yield the findings of quorum, brokers and partitions.

    ``new_client`` creates one with a connection of its own: a broker without a quorum leader delays the request, and
    all later requests on the same connection.
    """
    yield _fenced(brokers)
    try:
        async with new_client() as apart:
            quorum = await apart.describe_quorum()
    except OttlaError as error:
        yield _not_seen("quorum", "the metadata quorum", error, QUORUM_STEP)
    else:
        yield _quorum(quorum)
        if (clock := _clock(quorum, time.time_ns() // 1_000_000)) is not None:
            yield clock
    try:
        topics = await admin.describe_topic_partitions(None)
    except OttlaError as error:
        yield _not_seen("partitions", "the partitions", error, "check the log of the broker")
        return
    try:
        min_isr = await admin.describe_topic_config(sorted(topics), "min.insync.replicas")
    except OttlaError:
        # A user without the right to read configs still sees partitions without a leader.
        min_isr = {}
    for finding in _partitions(topics, min_isr):
        yield finding


def _not_seen(check: str, subject: str, error: OttlaError, next_step: str) -> Finding:
    if isinstance(error, KafkaError) and error.code in _AUTHORIZATION_ERRORS:
        return Finding(
            check=check,
            subject=subject,
            status=Status.WARNING,
            said="this user may not describe it",
            next_step="repeat it as an administrator, or: ottla acl add User:NAME --allow describe --cluster",
        )
    return Finding(
        check=check,
        subject=subject,
        status=Status.UNHEALTHY,
        said=str(error),
        next_step=next_step,
    )


def _fenced(brokers: Sequence[BrokerDescription]) -> Finding:
    fenced = [str(broker.node_id) for broker in brokers if broker.is_fenced]
    if fenced:
        return Finding(
            check="brokers",
            subject="the brokers",
            status=Status.UNHEALTHY,
            said=f"{len(fenced)} of {len(brokers)} are fenced: {', '.join(fenced)}",
            next_step=f"start them, or read their logs; or: ottla broker decommission {fenced[0]}",
        )
    return Finding(
        check="brokers", subject="the brokers", status=Status.OK, said=f"{len(brokers)} registered, none is fenced"
    )


def _quorum(quorum: QuorumDescription) -> Finding:
    if quorum.leader_id < 0:
        return Finding(
            check="quorum",
            subject="the metadata quorum",
            status=Status.UNHEALTHY,
            said="it has no leader",
            next_step="check that a majority of the controllers runs: topics cannot be changed without it",
        )
    voters = ", ".join(str(voter.node_id) for voter in quorum.voters)
    said = f"node {quorum.leader_id} leads in epoch {quorum.leader_epoch}; voters are {voters}"
    return Finding(check="quorum", subject="the metadata quorum", status=Status.OK, said=said)


def _clock(quorum: QuorumDescription, now_ms: int) -> Finding | None:
    """Compare this clock with the quorum leader's: its own last caught-up time is its current time."""
    leader = next((voter for voter in quorum.voters if voter.node_id == quorum.leader_id), None)
    if leader is None or leader.last_caught_up_timestamp_ms <= 0:
        return None
    skew_ms = now_ms - leader.last_caught_up_timestamp_ms
    if abs(skew_ms) <= CLOCK_SKEW_MS_MAX:
        said = f"this clock and that of node {leader.node_id} agree to {CLOCK_SKEW_MS_MAX // 1000} s"
        return Finding(check="clock", subject="the clock", status=Status.OK, said=said)
    return Finding(
        check="clock",
        subject="the clock",
        status=Status.WARNING,
        said=f"this clock is {abs(skew_ms) / 1000:.0f} s {'ahead of' if skew_ms > 0 else 'behind'} that of node "
        f"{leader.node_id}",
        next_step="synchronize both: certificates, tokens and records' timestamps depend on them",
    )


def _partitions(topics: "dict[str, TopicDescription]", min_isr: dict[str, str]) -> list[Finding]:
    offline, lagging, under_min_isr, count = [], [], [], 0
    for name in sorted(topics):
        for entry in topics[name].partitions:
            count += 1
            label = f"{name}-{entry.partition}"
            if entry.leader < 0:
                offline.append(label)
            elif len(entry.isr) < min(int(min_isr.get(name) or 1), len(entry.replicas)):
                under_min_isr.append(label)
            elif entry.is_under_replicated:
                lagging.append(label)
    found = []
    if offline:
        said, step = (
            "without a leader",
            "start the brokers that have their replicas: ottla topic describe NAME shows them",
        )
        found.append(_faulty(offline, count, said, step))
    if under_min_isr:
        said, step = "under min.insync.replicas: producers with acks=all are rejected", "start the brokers that lag"
        found.append(_faulty(under_min_isr, count, said, step))
    if lagging:
        said, step = "under-replicated", "start the brokers that lag, or wait until they have caught up"
        found.append(_faulty(lagging, count, said, step))
    if not found:
        said = f"all that this user may describe have a leader and are in sync: {count} in {len(topics)} topic(s)"
        found.append(Finding(check="partitions", subject="the partitions", status=Status.OK, said=said))
    return found


def _faulty(labels: list[str], count: int, said: str, next_step: str) -> Finding:
    more = f" and {len(labels) - SHOWN_MAX} more" if len(labels) > SHOWN_MAX else ""
    return Finding(
        check="partitions",
        subject="the partitions",
        status=Status.UNHEALTHY,
        said=f"{len(labels)} of {count} are {said}: {', '.join(labels[:SHOWN_MAX])}{more}",
        next_step=next_step,
    )
