"""Mutations of consumer groups (KIP-848) and their migration, in the form of `catalog`."""

from typing import Any

import pytest

from catalog import MUTATIONS, mutation
from hunting import SetAttribute, measure
from ottla.groups.classic import service
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.consumer.reconciliation import Reconciliation
from ottla.groups.consumer.settings import ConsumerGroupSettings
from ottla.groups.migration import members, upgrade

IN_CONSUMER_GROUPS: dict[str, int] = {"seeds_from": 12, "seeds_step": 16, "seeds_max": 108}
"""The seeds whose runs have a group of the consumer protocol."""


@mutation("a partition is assigned while another member owns it", known_seed=76, **IN_CONSUMER_GROUPS)
def _assign_owned_partitions(set_attribute: SetAttribute) -> None:
    set_attribute(ConsumerGroup, "is_owned", lambda self, topic_id, partition: False)


@mutation("a partition counts as revoked before the member says so", known_seed=76, **IN_CONSUMER_GROUPS)
def _revoke_at_once(set_attribute: SetAttribute) -> None:
    set_attribute(Reconciliation, "_still_owns", lambda self, revoked: False)


@mutation("sessions of consumers end early", known_seed=60, **IN_CONSUMER_GROUPS)
def _end_sessions_early(set_attribute: SetAttribute) -> None:
    set_attribute(ConsumerGroupSettings, "session_timeout_ms", lambda self, group_id: 2_000)


IN_MIGRATING_GROUPS: dict[str, int] = {"seeds_from": 24, "seeds_step": 32, "seeds_max": 1_016}
"""The seeds whose runs have a group of members that change their protocol."""


@mutation("a converted group has nothing of its classic members' assignments", known_seed=24, **IN_MIGRATING_GROUPS)
def _convert_without_assignments(set_attribute: SetAttribute) -> None:
    set_attribute(upgrade, "_assigned", lambda group, member, topics: {})


@mutation("a classic member gets its target at once", known_seed=344, **IN_MIGRATING_GROUPS)
def _sync_target(set_attribute: SetAttribute) -> None:
    encode = members.encode_assignment

    def sync_target(groups: Any, group: Any, request: Any) -> Any:
        def encode_target(_: object, version: int, topics: Any) -> bytes:
            return encode(group.target.get(request.member_id, {}), version, topics)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(members, "encode_assignment", encode_target)
            return sync(groups, group, request)

    sync = members.sync_with_consumer_group
    set_attribute(service, "sync_with_consumer_group", sync_target)


@mutation("a classic member keeps a partition that it has to give up", known_seed=344, **IN_MIGRATING_GROUPS)
def _never_join_again(set_attribute: SetAttribute) -> None:
    set_attribute(members, "_must_join_again", lambda group, member: False)


@mutation("a downgraded group has nothing of its members' partitions", known_seed=56, **IN_MIGRATING_GROUPS)
def _downgrade_to_targets(set_attribute: SetAttribute) -> None:
    set_attribute(ConsumerMember, "owned_partitions", lambda self: {})


if __name__ == "__main__":
    measure([each._replace(known_seed=None) for each in MUTATIONS if each.apply.__module__ == "__main__"])
