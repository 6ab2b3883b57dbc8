"""`MemberIndex`: every Topic and User as it was seen last, by cluster and by what it claims.

Topics and Users are the members of a Cluster. Only what others need to know of an object is kept: which cluster it is
in, and which topic or principal it claims; everything else is read when it is reconciled.
"""

from collections import defaultdict
from typing import TypeAlias, TypeVar

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey, referred_cluster
from ottla_operator.model.topic import Topic
from ottla_operator.model.user import User

Member: TypeAlias = Topic | User
"""What is in a cluster."""

MemberT = TypeVar("MemberT", Topic, User)


def member_of(document: Document) -> Member:
    """Return the Topic or User that ``document`` is."""
    return User.parse(document) if document["kind"] == "User" else Topic.parse(document)


class MemberIndex:
    """See the module."""

    def __init__(self) -> None:
        self._known: dict[ObjectKey, Member] = {}
        self._by_claim: defaultdict[tuple[str, ...], dict[ObjectKey, Member]] = defaultdict(dict)

    def remember(self, key: ObjectKey, document: Document) -> None:
        """Keep what others need to know of a Topic or User."""
        self._drop(key)
        member = member_of(document)
        self._known[key] = self._by_claim[member.claim][key] = member

    def forget(self, key: ObjectKey) -> list[ObjectKey]:
        """Remove an object that is gone; return the objects that may have waited for that."""
        if key.kind == "Cluster":
            return self.inside(key)
        gone = self._drop(key)
        return [] if gone is None else list(self._by_claim.get(gone.claim, ()))

    def inside(self, cluster: ObjectKey) -> list[ObjectKey]:
        """Return the objects in a cluster, as far as they were seen."""
        return [key for key, it in self._known.items() if it.cluster == cluster]

    def has_moved(self, key: ObjectKey, document: Document) -> bool:
        """Tell whether a Topic or User that is known is in another cluster by now: deleted and made again."""
        member = self._known.get(key)
        return member is not None and member.cluster != referred_cluster(document)

    def cluster_of(self, key: ObjectKey) -> ObjectKey:
        """Return the cluster that the object is in, or is: objects of one cluster take turns."""
        member = self._known.get(key)
        return ObjectKey("Cluster", key.namespace, key.name) if member is None else member.cluster

    def claimants(self, member: Member) -> list[Member]:
        """Return the objects that claim what ``member`` does, itself included."""
        return list(self._by_claim.get(member.claim, {}).values())

    def allowed_claimants(self, member: Member, cluster: Cluster) -> list[Member]:
        """Return the claimants whose namespace the cluster allows; another object has no claim there."""
        return [it for it in self.claimants(member) if cluster.lets_in(it.metadata.namespace)]

    def _drop(self, key: ObjectKey) -> Member | None:
        member = self._known.pop(key, None)
        if member is not None:
            claimants = self._by_claim[member.claim]
            del claimants[key]
            if not claimants:
                del self._by_claim[member.claim]
        return member
