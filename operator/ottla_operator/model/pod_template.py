"""What users add to the pods of a pool (``pools[].template``), in Kubernetes' own words."""

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
    """Labels, annotations and fields of a pod's spec; only what was said."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Json] = field(default_factory=dict)
    """Fields of a PodSpec by their names, none of them empty."""

    @property
    def words(self) -> Document:
        """Everything that was said, for a digest; empty when nothing was."""
        said = {"labels": dict(self.labels), "annotations": dict(self.annotations), "spec": dict(self.spec)}
        return {name: value for name, value in said.items() if value}

    @classmethod
    def parse(cls, document: Document) -> "PodTemplate":
        metadata = document.get("metadata", {})
        return cls(
            labels=metadata.get("labels", {}),
            annotations=metadata.get("annotations", {}),
            # The API server keeps no empty list and no empty selector: whoever wrote one would differ for ever.
            spec={name: document[name] for name in _FIELDS if document.get(name)},
        )
