"""Cost of authorization: time per partition of a Produce, and memory, with 10,000 access control entries.

    python -m benchmarks.authorization [--entries 10000] [--topics 1000]

Checks as the Produce handler does, once per topic of one partition, in this process: topics with a cached result, and
topics without one; and once as InitProducerId does, for any topic. Half of the entries are prefixes.
The last row is the memory of cached results for new names.
"""

import argparse
import gc
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from benchmarks.codec_records import best_seconds

from ottla.handlers.api import ConnectionInfo, ListenerRole, RequestContext
from ottla.metadata.acls import acl_record
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE
from ottla.metadata.metadata_version import LATEST_METADATA_VERSION, METADATA_VERSION
from ottla.ports import ConnectionId
from ottla.security.authorizer import CACHED_RESULTS_MAX, AclAuthorizer
from ottla.types import Endpoint, Uuid
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla.wire.messages.metadata_log import FeatureLevelRecord

HOST = "10.0.0.1"
T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=1_000, help="topics that one round checks")
    parser.add_argument("--seconds", type=float, default=0.3)
    options = parser.parse_args()

    authorizer, entries_mib = measured(lambda: with_entries(options.entries))
    context = of_alice(authorizer)
    topics = [f"topic-{number * 7 % options.entries:05}" for number in range(options.topics)]
    assert all(context.may_on_topic(Operation.WRITE, topic) for topic in topics)

    def check_cached() -> None:
        for topic in topics:
            context.may_on_topic(Operation.WRITE, topic)

    def check_first() -> None:
        clear_cache(authorizer)
        check_cached()

    def fill() -> None:
        for number in range(CACHED_RESULTS_MAX):
            context.would_be_allowed(Operation.WRITE, ResourceType.TOPIC, f"unknown-topic-{number}")

    def check_any_topic_first() -> None:
        clear_cache(authorizer)
        check_any_topic(authorizer)

    first_us, cached_us = per_topic_us(check_first, options), per_topic_us(check_cached, options)
    any_topic_us = best_seconds(lambda: check_any_topic(authorizer), seconds=options.seconds) * 1e6
    any_topic_first_us = best_seconds(check_any_topic_first, seconds=options.seconds) * 1e6
    clear_cache(authorizer)
    _, results_mib = measured(fill)
    assert len(authorizer._cache) == CACHED_RESULTS_MAX
    rows = [
        ("cached result", f"{cached_us:.2f} us"),
        ("first check", f"{first_us:.2f} us"),
        ("any topic, cached result", f"{any_topic_us:.2f} us"),
        ("any topic, first check", f"{any_topic_first_us:,.0f} us"),
        (f"memory of {options.entries:,} entries", f"{entries_mib:.1f} MiB"),
        (f"memory of {CACHED_RESULTS_MAX:,} cached results", f"{results_mib:.1f} MiB"),
    ]
    for label, figure in rows:
        print(f"{label:30} {figure:>12}")


def with_entries(count: int) -> AclAuthorizer:
    """Return an authorizer with ``count`` entries: every second topic by name, the others by a prefix of their own."""
    delta = MetadataDelta(EMPTY_IMAGE)
    for number in range(count):
        name, pattern = f"topic-{number:05}", PatternType.PREFIXED if number % 2 else PatternType.LITERAL
        acl = Acl(ResourceType.TOPIC, name, pattern, "User:alice", "*", Operation.WRITE, PermissionType.ALLOW)
        delta.replay(acl_record(Uuid(number.to_bytes(16, "big")), acl).message)
    delta.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION))
    authorizer = AclAuthorizer()
    authorizer.publish(delta, delta.apply(EMPTY_IMAGE.provenance))
    return authorizer


def clear_cache(authorizer: AclAuthorizer) -> None:
    """Clear its cached results, as a change of an entry does."""
    authorizer._cache.clear()
    authorizer._characters = 0


def check_any_topic(authorizer: AclAuthorizer) -> None:
    """Check as InitProducerId does: may alice write to any topic?"""
    assert authorizer.authorize_by_resource_type("User:alice", HOST, Operation.WRITE, ResourceType.TOPIC)


def of_alice(authorizer: AclAuthorizer) -> RequestContext:
    """Return a request's context with the fields that a permission check needs."""
    connection = ConnectionInfo(
        connection=ConnectionId(1),
        peer=Endpoint(HOST, 1),
        listener="CLIENT",
        role=ListenerRole.BROKER,
        security_protocol="SASL_PLAINTEXT",
        local_address=Endpoint(HOST, 9092),
        principal="User:alice",
    )
    return RequestContext(
        api_key=0,
        api_version=12,
        correlation_id=1,
        client_id="",
        connection=connection,
        services=cast(Any, SimpleNamespace(authorizer=authorizer)),
        received_at_ms=0,
    )


def per_topic_us(work: Callable[[], None], options: argparse.Namespace) -> float:
    return best_seconds(work, seconds=options.seconds) / options.topics * 1e6


def measured(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of ``work`` and its memory, in MiB."""
    gc.collect()
    tracemalloc.start()
    made = work()
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return made, size_bytes / 2**20


if __name__ == "__main__":
    main()
