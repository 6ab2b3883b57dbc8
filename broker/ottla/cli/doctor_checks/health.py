"""How the cluster is: its quorum, brokers and partitions, and whether its clock agrees with this one's."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from ottla.cli.doctor_checks.finding import Finding, Verdict
from ottla.client.admin import AdminClient
from ottla.client.results import BrokerDescription, QuorumDescription, TopicDescription
from ottla.errors import ErrorCode, KafkaError, OttlaError

CLOCK_SKEW_MS_MAX: Final = 5_000
SHOWN_MAX: Final = 5
QUORUM_STEP: Final = "see whether a majority of the controllers runs and reaches each other: their logs say who votes"
_REFUSALS: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


async def check_health(
    admin: AdminClient, brokers: Sequence[BrokerDescription], new_client: Callable[[], AdminClient]
) -> AsyncIterator[Finding]:
    """Yield what quorum, brokers and partitions say.

    ``new_client`` makes one with a connection of its own: a broker that finds no leader of the quorum lets the question
    wait, and whatever comes behind it on the same connection.
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
        yield _not_seen("partitions", "the partitions", error, "look at the logs of the broker that was asked")
        return
    try:
        min_isr = await admin.describe_topic_config(sorted(topics), "min.insync.replicas")
    except OttlaError:
        # Who may not read configurations still sees which partitions have no leader.
        min_isr = {}
    for finding in _partitions(topics, min_isr):
        yield finding


def _not_seen(check: str, subject: str, error: OttlaError, next_step: str) -> Finding:
    if isinstance(error, KafkaError) and error.code in _REFUSALS:
        return Finding(
            check=check,
            subject=subject,
            verdict=Verdict.WARNING,
            said="this user may not look at it",
            next_step="ask again as an administrator, or: ottla acl add User:NAME --allow describe --cluster",
        )
    return Finding(
        check=check,
        subject=subject,
        verdict=Verdict.UNHEALTHY,
        said=str(error),
        next_step=next_step,
    )


def _fenced(brokers: Sequence[BrokerDescription]) -> Finding:
    fenced = [str(broker.node_id) for broker in brokers if broker.is_fenced]
    if fenced:
        return Finding(
            check="brokers",
            subject="the brokers",
            verdict=Verdict.UNHEALTHY,
            said=f"{len(fenced)} of {len(brokers)} are fenced: {', '.join(fenced)}",
            next_step=f"start them, or read their logs; or: ottla broker decommission {fenced[0]}",
        )
    return Finding(
        check="brokers", subject="the brokers", verdict=Verdict.OK, said=f"{len(brokers)} registered, none is fenced"
    )


def _quorum(quorum: QuorumDescription) -> Finding:
    if quorum.leader_id < 0:
        return Finding(
            check="quorum",
            subject="the metadata quorum",
            verdict=Verdict.UNHEALTHY,
            said="it has no leader",
            next_step="see whether a majority of the controllers runs: topics cannot be changed without it",
        )
    voters = ", ".join(str(voter.node_id) for voter in quorum.voters)
    said = f"node {quorum.leader_id} leads in epoch {quorum.leader_epoch}; voters are {voters}"
    return Finding(check="quorum", subject="the metadata quorum", verdict=Verdict.OK, said=said)


def _clock(quorum: QuorumDescription, now_ms: int) -> Finding | None:
    """Compare this clock with the quorum leader's, which says of itself that it is caught up at its own now."""
    leader = next((voter for voter in quorum.voters if voter.node_id == quorum.leader_id), None)
    if leader is None or leader.last_caught_up_timestamp_ms <= 0:
        return None
    skew_ms = now_ms - leader.last_caught_up_timestamp_ms
    if abs(skew_ms) <= CLOCK_SKEW_MS_MAX:
        said = f"this clock and that of node {leader.node_id} agree to {CLOCK_SKEW_MS_MAX // 1000} s"
        return Finding(check="clock", subject="the clock", verdict=Verdict.OK, said=said)
    return Finding(
        check="clock",
        subject="the clock",
        verdict=Verdict.WARNING,
        said=f"this clock is {abs(skew_ms) / 1000:.0f} s {'ahead of' if skew_ms > 0 else 'behind'} that of node "
        f"{leader.node_id}",
        next_step="synchronize both: certificates, tokens and records' timestamps go by them",
    )


def _partitions(topics: "dict[str, TopicDescription]", min_isr: dict[str, str]) -> list[Finding]:
    offline, lagging, refusing, count = [], [], [], 0
    for name in sorted(topics):
        for entry in topics[name].partitions:
            count += 1
            label = f"{name}-{entry.partition}"
            if entry.leader < 0:
                offline.append(label)
            elif len(entry.isr) < min(int(min_isr.get(name) or 1), len(entry.replicas)):
                refusing.append(label)
            elif entry.is_under_replicated:
                lagging.append(label)
    found = []
    if offline:
        said, step = (
            "without a leader",
            "start the brokers that have their replicas: ottla topic describe NAME shows them",
        )
        found.append(_faulty(offline, count, said, step))
    if refusing:
        said, step = "under min.insync.replicas: producers with acks=all are refused", "start the brokers that lag"
        found.append(_faulty(refusing, count, said, step))
    if lagging:
        said, step = "under-replicated", "start the brokers that lag, or wait until they have caught up"
        found.append(_faulty(lagging, count, said, step))
    if not found:
        said = f"all that this user may see are led and in sync: {count} in {len(topics)} topic(s)"
        found.append(Finding(check="partitions", subject="the partitions", verdict=Verdict.OK, said=said))
    return found


def _faulty(labels: list[str], count: int, said: str, next_step: str) -> Finding:
    more = f" and {len(labels) - SHOWN_MAX} more" if len(labels) > SHOWN_MAX else ""
    return Finding(
        check="partitions",
        subject="the partitions",
        verdict=Verdict.UNHEALTHY,
        said=f"{len(labels)} of {count} are {said}: {', '.join(labels[:SHOWN_MAX])}{more}",
        next_step=next_step,
    )
