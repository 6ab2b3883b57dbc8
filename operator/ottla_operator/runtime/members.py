"""`MemberIndex`: every Topic and User as last observed, by cluster and by claim.

Topics and Users are the members of a Cluster. Only facts that other objects need are kept: the member's cluster, and
the topic or principal that it claims; everything else is read when it is reconciled.
"""

from collections import defaultdict
from typing import TypeAlias, TypeVar

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey, referred_cluster
from ottla_operator.model.topic import Topic
from ottla_operator.model.user import User

Member: TypeAlias = Topic | User
"""An object that belongs to a cluster."""

MemberT = TypeVar("MemberT", Topic, User)


def member_of(document: Document) -> Member:
    """Parse ``document``, a Topic or User."""
    return User.parse(document) if document["kind"] == "User" else Topic.parse(document)


class MemberIndex:
    """Members by key and by claim."""

    def __init__(self) -> None:
        self._known: dict[ObjectKey, Member] = {}
        self._by_claim: defaultdict[tuple[str, ...], dict[ObjectKey, Member]] = defaultdict(dict)

    def add(self, key: ObjectKey, document: Document) -> None:
        """Add or replace a Topic or User."""
        self._drop(key)
        member = member_of(document)
        self._known[key] = self._by_claim[member.claim][key] = member

    def remove(self, key: ObjectKey) -> list[ObjectKey]:
        """Remove a deleted object; return the objects that may have waited for the deletion."""
        if key.kind == "Cluster":
            return self.members_of(key)
        gone = self._drop(key)
        return [] if gone is None else list(self._by_claim.get(gone.claim, ()))

    def members_of(self, cluster: ObjectKey) -> list[ObjectKey]:
        """Return the known members of a cluster."""
        return [key for key, it in self._known.items() if it.cluster == cluster]

    def has_moved(self, key: ObjectKey, document: Document) -> bool:
        """Tell whether a known Topic or User is in another cluster by now: deleted and created again."""
        member = self._known.get(key)
        return member is not None and member.cluster != referred_cluster(document)

    def cluster_of(self, key: ObjectKey) -> ObjectKey:
        """Return the cluster of the object, or the object itself if it is a Cluster: the group of the work queue."""
        member = self._known.get(key)
        return ObjectKey("Cluster", key.namespace, key.name) if member is None else member.cluster

    def claimants(self, member: Member) -> list[Member]:
        """Return the members with the claim of ``member``, including itself."""
        return list(self._by_claim.get(member.claim, {}).values())

    def allowed_claimants(self, member: Member, cluster: Cluster) -> list[Member]:
        """Return the claimants whose namespace the cluster allows; claims from other namespaces do not count."""
        return [it for it in self.claimants(member) if cluster.admits_namespace(it.metadata.namespace)]

    def _drop(self, key: ObjectKey) -> Member | None:
        member = self._known.pop(key, None)
        if member is not None:
            claimants = self._by_claim[member.claim]
            del claimants[key]
            if not claimants:
                del self._by_claim[member.claim]
        return member
