"""The Cluster of a command, and the address and credentials of its brokers."""

import contextlib
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from ottla.cli.exit_codes import NotFoundError
from ottla.cli.kubernetes.forwarding import Forwards
from ottla.cli.kubernetes.kubectl import CLUSTERS, Document, Kubectl
from ottla.cli.options import RemoteBrokers
from ottla.client.connection import ROUTE
from ottla.errors import OttlaError

_NODES_PORT = 9091
"""The listener of nodes and the operator in a Cluster with TLS."""
_CLIENT_PROPERTIES = "client.properties"


class Target(RemoteBrokers):
    """The Cluster that a command line names, or the only one of its namespace; looked up on first use."""

    def __init__(self, kubectl: Kubectl, *, name: str | None, user: str | None) -> None:
        self.kubectl = kubectl
        self._name = name
        self._user = user
        self._ends = contextlib.ExitStack()
        forwards = Forwards(kubectl)
        self._ends.callback(forwards.close)
        self._ends.callback(ROUTE.reset, ROUTE.set(forwards.route))

    def close(self) -> None:
        """Remove the files and end the forwards."""
        self._ends.close()

    @cached_property
    def document(self) -> Document:
        """The Cluster as of the first access.

        Raises:
            NotFoundError: there is none, or none of that name.
            OttlaError: there are several, and no name was given.
        """
        if self._name is not None:
            return self.kubectl.get(CLUSTERS, self._name)
        found: list[Document] = self.kubectl.get(CLUSTERS)["items"]
        if not found:
            raise NotFoundError("there is no Cluster in this namespace; name another one with -n")
        if len(found) > 1:
            names = ", ".join(it["metadata"]["name"] for it in found)
            raise OttlaError(f"there are several Clusters in this namespace; name one with --cluster: {names}")
        return found[0]

    @property
    def name(self) -> str:
        name: str = self.document["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.document["metadata"]["namespace"]
        return namespace

    def refreshed(self) -> Document:
        """Return the Cluster as it is now."""
        return self.kubectl.get(CLUSTERS, self.name)

    def bootstrap_servers(self) -> str:
        """Return the address of brokers for ``--user``, else for the administrator."""
        if self._user is not None:
            address = self._user_entries.get("bootstrap-servers", b"").decode()
            if not address:
                raise OttlaError(f"Secret {self._user} is not that of a User: it has no entry bootstrap-servers")
            return address
        if self._has_tls:
            return f"{self.name}-bootstrap.{self.namespace}.svc:{_NODES_PORT}"
        servers: str | None = self.document.get("status", {}).get("bootstrapServers")
        if not servers:
            raise OttlaError(f"Cluster {self.name} has no address yet; kubectl ottla status shows the reason")
        return servers

    def client_properties(self) -> Path | None:
        """Return the client properties of ``--user``, else of the administrator."""
        if self._user is not None:
            return self._file(self._user_entries, f"Secret {self._user}")
        if self._has_tls:
            return self._file(self.kubectl.secret(f"{self.name}-operator"), f"Secret {self.name}-operator")
        return None

    def cluster_identity(self) -> tuple[str, str]:
        return self.namespace, self.name

    def objects(self, resource: str) -> list[Document]:
        """Return the objects in the Cluster's namespace, and in those that it allows."""
        allowed = self.document["spec"].get("allowedNamespaces", [])
        if "*" in allowed:
            return list(self.kubectl.get(resource, "--all-namespaces")["items"])
        namespaces = sorted({self.namespace, *allowed})
        return [it for name in namespaces for it in self.kubectl.get(resource, f"--namespace={name}")["items"]]

    @property
    def _has_tls(self) -> bool:
        return "tls" in self.document["spec"]

    @cached_property
    def _user_entries(self) -> Mapping[str, bytes]:
        assert self._user is not None
        return self.kubectl.secret(self._user)

    def _file(self, entries: Mapping[str, bytes], what: str) -> Path:
        """Write the client's properties to a file that only its owner may read, removed by `close`."""
        if _CLIENT_PROPERTIES not in entries:
            raise OttlaError(f"{what} has no entry {_CLIENT_PROPERTIES}")
        directory = self._ends.enter_context(tempfile.TemporaryDirectory(prefix="kubectl-ottla-"))
        file = Path(directory) / _CLIENT_PROPERTIES
        file.touch(mode=0o600)
        file.write_bytes(entries[_CLIENT_PROPERTIES])
        return file
