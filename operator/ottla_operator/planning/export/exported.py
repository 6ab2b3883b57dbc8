"""What an export consists of: manifests, what has to be done before they are applied, and what they lack."""

from dataclasses import dataclass

from ottla_operator.model.document import API_VERSION, Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A topic, a user, or other entries of a cluster."""

    document: Document | None
    """The manifest; None if no manifest can describe it."""
    hints: tuple[str, ...] = ()
    """What an administrator needs to know before the manifest is applied."""
    warnings: tuple[str, ...] = ()
    """What the manifest lacks, or why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where the exported objects are to be created."""

    cluster: str
    """The name of the Cluster."""
    namespace: str = ""
    """Of the objects; empty: kubectl's own."""
    cluster_namespace: str = ""
    """Of the Cluster; empty: that of the objects."""

    def manifest(self, kind: str, name: str, spec: Document) -> Document:
        """Return the manifest of an object of the Cluster."""
        is_elsewhere = self.cluster_namespace not in ("", self.namespace)
        reference = {"name": self.cluster, **({"namespace": self.cluster_namespace} if is_elsewhere else {})}
        return {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": name, **({"namespace": self.namespace} if self.namespace else {})},
            "spec": {"clusterRef": reference, **spec},
        }
