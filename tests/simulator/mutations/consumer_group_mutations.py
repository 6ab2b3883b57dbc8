"""Mutations of consumer groups (KIP-848), in the form of `catalog`."""

from catalog import MUTATIONS, mutation
from hunting import SetAttribute, measure
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.reconciliation import Reconciliation
from ottla.groups.consumer.settings import ConsumerGroupSettings

IN_CONSUMER_GROUPS: dict[str, int] = {"seeds_from": 12, "seeds_step": 16, "seeds_max": 108}
"""The seeds whose runs have a group of the consumer protocol."""


@mutation("a partition is assigned while another member owns it", **IN_CONSUMER_GROUPS)
def _assign_owned_partitions(set_attribute: SetAttribute) -> None:
    set_attribute(ConsumerGroup, "is_owned", lambda self, topic_id, partition: False)


@mutation("a partition counts as revoked before the member says so", **IN_CONSUMER_GROUPS)
def _revoke_at_once(set_attribute: SetAttribute) -> None:
    set_attribute(Reconciliation, "_still_owns", lambda self, revoked: False)


@mutation("sessions of consumers end early", **IN_CONSUMER_GROUPS)
def _end_sessions_early(set_attribute: SetAttribute) -> None:
    set_attribute(ConsumerGroupSettings, "session_timeout_ms", lambda self, group_id: 2_000)


if __name__ == "__main__":
    measure([each._replace(known_seed=None) for each in MUTATIONS if each.apply.__module__ == "__main__"])
