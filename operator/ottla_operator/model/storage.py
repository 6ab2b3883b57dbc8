"""The volumes of a pool's nodes, as in the spec of a Cluster."""

from dataclasses import dataclass

from ottla_operator.model.document import Document

DATA_VOLUME = "data"
"""The volume that every node has: the first log directory, with the metadata log."""
RETAIN = "Retain"
DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One volume of each node; each is a log directory."""

    name: str
    size: str
    storage_class_name: str | None = None
    """None: the default StorageClass of the Kubernetes cluster."""

    @classmethod
    def parse(cls, name: str, document: Document) -> "Volume":
        return cls(name=name, size=document["size"], storage_class_name=document.get("storageClassName"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The volumes of each node of a pool."""

    data: Volume
    further: tuple[Volume, ...] = ()
    """In the order of the spec; new ones may be added at any position."""
    on_scale_down: str = RETAIN
    """Whether the volumes of a node that has left are kept: `RETAIN` or `DELETE`."""

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """All volumes, the one with the metadata log first, the others by name."""
        return (self.data, *sorted(self.further, key=lambda it: it.name))

    @classmethod
    def parse(cls, document: Document) -> "Storage":
        return cls(
            data=Volume.parse(DATA_VOLUME, document),
            further=tuple(Volume.parse(it["name"], it) for it in document.get("volumes", ())),
            on_scale_down=document.get("onScaleDown", RETAIN),
        )
