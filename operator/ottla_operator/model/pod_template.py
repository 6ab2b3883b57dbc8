"""Settings of users for the pods of a pool (``pools[].template``), in Kubernetes' own fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_operator.model.document import Document, Json

_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "imagePullSecrets",
    "terminationGracePeriodSeconds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """Labels, annotations and fields of a pod's spec; only those that are set."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Json] = field(default_factory=dict)
    """Fields of a PodSpec by their names, none of them empty."""

    @property
    def set_fields(self) -> Document:
        """Everything that is set, for a digest; empty if nothing is."""
        said = {"labels": dict(self.labels), "annotations": dict(self.annotations), "spec": dict(self.spec)}
        return {name: value for name, value in said.items() if value}

    @classmethod
    def parse(cls, document: Document) -> "PodTemplate":
        metadata = document.get("metadata", {})
        return cls(
            labels=metadata.get("labels", {}),
            annotations=metadata.get("annotations", {}),
            # The API server drops empty lists and selectors: with them, spec and object would differ at each resync.
            spec={name: document[name] for name in _FIELDS if document.get(name)},
        )
