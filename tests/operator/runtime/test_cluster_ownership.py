"""Several installations of the operator on one namespace: one owns a Cluster, whatever the others do."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import TOPIC_FINALIZER
from ottla_operator.runtime.cluster_ownership import (
    CHALLENGE_AGAIN_AFTER_S,
    TAKEOVER_AFTER_S,
    ClusterOwnership,
    Ownership,
    OwnershipClaim,
)
from ottla_operator.runtime.workers import RECONCILE_S_MAX

Document = dict[str, Any]
Builder = Callable[..., Document]
CLUSTER, TOPIC = ObjectKey("Cluster", "kafka", "demo"), ObjectKey("Topic", "kafka", "flights")
NOW = "2026-01-01T00:00:00Z"
FIRST, SECOND, THIRD = "ottla-system/ottla", "other/ottla", "third/ottla"


class Hall:
    """One Cluster's claim, and operators that observe it; observation and write are atomic, by the object's version."""

    def __init__(self) -> None:
        self.claim = OwnershipClaim()
        self.now_s = 0.0
        self.operators = {name: ClusterOwnership(name) for name in (FIRST, SECOND, THIRD)}

    def look(self, name: str, after_s: float = 0.0) -> Ownership:
        self.now_s += after_s
        ownership, self.claim = self.operators[name].observe_claim(CLUSTER, self.claim, now_s=self.now_s, now=NOW)
        return ownership


def test_no_reconciliation_outlasts_a_challenge() -> None:
    assert RECONCILE_S_MAX < TAKEOVER_AFTER_S


def test_first_operator_owns_the_cluster_and_others_keep_away() -> None:
    hall = Hall()
    assert hall.look(FIRST) is Ownership.OURS
    assert hall.claim == OwnershipClaim(name=FIRST)

    assert hall.look(SECOND) is Ownership.CHALLENGED
    assert hall.claim == OwnershipClaim(name=FIRST, challenger=SECOND)
    assert hall.look(FIRST, 1) is Ownership.OURS
    assert hall.claim == OwnershipClaim(name=FIRST, rejected=SECOND, rejected_at=NOW)
    assert hall.look(SECOND, 1) is Ownership.THEIRS


def test_nothing_is_written_without_a_challenge() -> None:
    hall = Hall()
    hall.look(FIRST)
    hall.look(SECOND)
    hall.look(FIRST)
    hall.look(SECOND)
    quiet = hall.claim

    for _ in range(9):
        assert hall.look(FIRST, CHALLENGE_AGAIN_AFTER_S / 20) is Ownership.OURS
        assert hall.look(SECOND, CHALLENGE_AGAIN_AFTER_S / 20) is Ownership.THEIRS
        assert hall.claim == quiet


def test_claim_is_challenged_again_after_a_while() -> None:
    hall = Hall()
    for name in (FIRST, SECOND, FIRST, SECOND):
        hall.look(name)

    assert hall.look(SECOND, CHALLENGE_AGAIN_AFTER_S) is Ownership.CHALLENGED
    assert hall.claim.challenger == SECOND


def test_owner_that_does_not_reject_a_challenge_loses_the_cluster() -> None:
    hall = Hall()
    hall.look(FIRST)
    hall.look(SECOND)

    hall.look(SECOND, 1)
    assert hall.look(SECOND, TAKEOVER_AFTER_S - 1) is Ownership.CHALLENGED
    assert hall.look(SECOND, 1) is Ownership.OURS
    assert hall.claim == OwnershipClaim(name=SECOND)
    # The former owner is back.
    assert hall.look(FIRST) is Ownership.CHALLENGED
    assert hall.look(SECOND) is Ownership.OURS
    assert hall.look(FIRST) is Ownership.THEIRS


def test_restarted_challenger_waits_again() -> None:
    hall = Hall()
    hall.look(FIRST)
    hall.look(SECOND)
    hall.operators[SECOND] = ClusterOwnership(SECOND)

    assert hall.look(SECOND, TAKEOVER_AFTER_S) is Ownership.CHALLENGED
    assert hall.look(SECOND, TAKEOVER_AFTER_S) is Ownership.OURS


def test_third_operator_waits_for_the_second_and_replaces_a_lost_one() -> None:
    hall = Hall()
    hall.look(FIRST)
    hall.look(SECOND)
    assert hall.look(THIRD) is Ownership.THEIRS

    assert hall.look(THIRD, 2 * TAKEOVER_AFTER_S) is Ownership.CHALLENGED
    assert hall.claim.challenger == THIRD


def test_operator_without_a_name_owns_every_cluster() -> None:
    claim = OwnershipClaim(name=FIRST, challenger=SECOND)

    assert ClusterOwnership("").observe_claim(CLUSTER, claim, now_s=0, now=NOW) == (Ownership.OURS, claim)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([FIRST, SECOND, THIRD]),
            st.sampled_from([0.0, 1.0, CHALLENGE_AGAIN_AFTER_S, RECONCILE_S_MAX, TAKEOVER_AFTER_S]),
            st.sampled_from(["observe_claim", "look", "look", "begin anew"]),
        ),
        max_size=60,
    )
)
def test_no_two_reconciliations_overlap(moves: list[tuple[str, float, str]]) -> None:
    """An owner reconciles for as long as one reconciliation may take; meanwhile no other becomes the owner."""
    hall, works_until_s = Hall(), dict.fromkeys((FIRST, SECOND, THIRD), -1.0)
    for name, after_s, what in moves:
        if what == "begin anew":
            hall.now_s += after_s
            hall.operators[name], works_until_s[name] = ClusterOwnership(name), -1.0
        elif hall.look(name, after_s) is Ownership.OURS:
            assert all(until_s <= hall.now_s for other, until_s in works_until_s.items() if other != name)
            works_until_s[name] = hall.now_s + RECONCILE_S_MAX


def test_claim_survives_the_api() -> None:
    claim = OwnershipClaim(name=FIRST, challenger=SECOND, rejected=THIRD, rejected_at=NOW)

    assert OwnershipClaim.parse({"status": claim.to_patch()}) == claim
    assert replace(claim, challenger="").to_patch()["operator"]["challenger"] is None
    assert OwnershipClaim.parse({}) == OwnershipClaim.parse({"status": None}) == OwnershipClaim()


class TestController:
    """Two controllers over one API server and its brokers."""

    @pytest.fixture
    def clock(self) -> list[float]:
        return [0.0]

    @pytest.fixture
    def operator(self, api: Any, brokers: Any, clock: list[float]) -> Callable[[str], ControllerManager]:
        def make(name: str) -> ControllerManager:
            return ControllerManager(
                api,
                lambda namespace: KubernetesHost(api, namespace, "ottla/broker:test"),
                brokers.connect,
                now=lambda: NOW,
                now_s=lambda: clock[0],
                name=name,
            )

        return make

    def test_other_operator_writes_only_its_challenge(
        self,
        operator: Callable[[str], ControllerManager],
        api: Any,
        brokers: Any,
        cluster_manifest: Builder,
        topic_manifest: Builder,
    ) -> None:
        api.put(cluster_manifest())
        api.put(topic_manifest())
        first, second = operator(FIRST), operator(SECOND)
        asyncio.run(first.reconcile(CLUSTER))
        assert api.stored[CLUSTER]["status"]["operator"] == {"name": FIRST}
        api.writes.clear()

        assert asyncio.run(second.reconcile(CLUSTER)) is False
        assert asyncio.run(second.reconcile(TOPIC)) is True
        assert api.writes == ["claim Cluster"]
        assert (brokers.addresses, api.stored[TOPIC].get("status")) == ([], None)
        asyncio.run(first.reconcile(CLUSTER))
        for _ in range(2):
            assert asyncio.run(second.reconcile(CLUSTER)) is True

        assert api.stored[CLUSTER]["status"]["operator"] == {"name": FIRST, "refused": SECOND, "refusedAt": NOW}
        ((_, note, is_warning),) = [event for event in api.events if event[0] == "OtherOperator"]
        assert is_warning
        assert note == (
            f"{FIRST} owns Cluster kafka/demo, so {SECOND} does not reconcile it; give each operator "
            "namespaces of its own (watchNamespaces), or remove one of them"
        )

    @pytest.mark.parametrize("metadata", [{}, {"deletionTimestamp": NOW, "finalizers": [TOPIC_FINALIZER]}])
    def test_finalizers_in_a_cluster_are_written_by_its_owner(
        self,
        operator: Callable[[str], ControllerManager],
        api: Any,
        cluster_manifest: Builder,
        topic_manifest: Builder,
        metadata: Document,
    ) -> None:
        api.put(cluster_manifest())
        api.put(topic_manifest(deletionPolicy="Delete"), **metadata)
        first, second = operator(FIRST), operator(SECOND)
        asyncio.run(first.reconcile(CLUSTER))
        api.writes.clear()

        assert asyncio.run(second.reconcile(TOPIC)) is True
        assert api.writes == []
        asyncio.run(first.reconcile(TOPIC))
        assert [it for it in api.writes if it.startswith("finalizers")] == [
            "finalizers []" if metadata else f"finalizers ['{TOPIC_FINALIZER}']"
        ]

    def test_members_are_marked_when_their_cluster_is_taken_over(
        self,
        operator: Callable[[str], ControllerManager],
        api: Any,
        brokers: Any,
        with_cluster: Document,
        topic_manifest: Builder,
        clock: list[float],
    ) -> None:
        api.put(topic_manifest())
        first, second = operator(FIRST), operator(SECOND)

        async def scenario() -> tuple[Any, ...]:
            await first.reconcile(CLUSTER)
            await second.resync()
            await second.reconcile(CLUSTER)
            await second.reconcile(TOPIC)
            before = api.stored[TOPIC].get("status")
            clock[0] += 1
            await second.reconcile(CLUSTER)
            clock[0] += TAKEOVER_AFTER_S
            second.queue._waiting_since.clear()
            await second.reconcile(CLUSTER)
            return before, set(second.queue._waiting_since)

        before, marked = asyncio.run(scenario())

        assert before is None
        assert TOPIC in marked
        assert api.stored[CLUSTER]["status"]["operator"] == {"name": SECOND}
        asyncio.run(second.reconcile(TOPIC))
        assert brokers.topics["flights"].partitions == 6

    def test_former_owner_has_no_series_of_the_cluster(
        self, operator: Callable[[str], ControllerManager], api: Any, cluster_manifest: Builder
    ) -> None:
        api.put(cluster_manifest())
        first = operator(FIRST)

        def series() -> int:
            return sum(len(family.samples) for family in first._metrics.clusters.collect())

        asyncio.run(first.reconcile(CLUSTER))
        assert series() > 0
        api.stored[CLUSTER]["status"]["operator"] = {"name": SECOND}
        asyncio.run(first.reconcile(CLUSTER))
        assert series() == 0

    def test_challenge_marks_the_owners_cluster_and_its_rejection_the_challengers(
        self, operator: Callable[[str], ControllerManager], api: Any, cluster_manifest: Builder
    ) -> None:
        api.put(cluster_manifest())
        first, second = operator(FIRST), operator(SECOND)

        async def scenario() -> list[bool]:
            woken = []
            for bidder, observer in ((first, second), (second, first), (first, second)):
                observer.seen(api.stored[CLUSTER])
                observer.queue._waiting_since.clear()
                await bidder.reconcile(CLUSTER)
                observer.seen(api.stored[CLUSTER])
                woken.append(CLUSTER in observer.queue._waiting_since)
            return woken

        assert asyncio.run(scenario()) == [True, True, True]

    def test_one_of_two_concurrent_takeovers_succeeds(
        self, operator: Callable[[str], ControllerManager], api: Any, cluster_manifest: Builder
    ) -> None:
        api.put(cluster_manifest())
        read = asyncio.run(api.get(*CLUSTER))
        asyncio.run(operator(FIRST).reconcile(CLUSTER))

        with pytest.raises(ApiError, match="it has changed"):
            asyncio.run(operator(SECOND)._reconcilers["Cluster"]._reconcile(read))
        assert api.stored[CLUSTER]["status"]["operator"] == {"name": FIRST}
