"""The operator, installed from its chart by helm."""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from api_objects import api_objects
from kubernetes_namespace import OPERATOR_LABEL, OPERATOR_NAMESPACE, OPERATOR_RELEASE, ROOT, Document, Namespace, run

CHART = ROOT / "charts" / "ottla-operator"


class Operator:
    """The operator, installed from its chart as a user would."""

    system = Namespace(OPERATOR_NAMESPACE)

    def install(self, *settings: str, chart: Path = CHART, options: Sequence[str] = ()) -> None:
        """Install or upgrade it; ``settings`` are of the form ``image.tag=1``, ``options`` are those of helm."""
        run(
            *("helm", "upgrade", "--install", OPERATOR_RELEASE, str(chart)),
            *("--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout=120s"),
            # For Clusters with racks.
            *("--set", ",".join(("rbac.nodes=true", *settings)), *options),
        )

    @contextmanager
    def shared(self, users: Path) -> Iterator[None]:
        """Install it for one of several processes: the first one does, the last one uninstalls it.

        ``users`` is a file of all of them, with their number.
        """

        def add(change: int) -> int:
            file.seek(0)
            count = int(file.read() or 0) + change
            file.seek(0)
            file.truncate()
            file.write(str(count))
            file.flush()
            return count

        with users.open("a+") as file:
            with _locked(file.fileno()):
                if add(1) == 1:
                    self.install()
            yield
            with _locked(file.fileno()):
                if add(-1) == 0:
                    self.uninstall()

    def pods(self) -> dict[str, Document]:
        """Return the pods that are not being deleted, by name."""
        found = api_objects().list("pods", OPERATOR_NAMESPACE, OPERATOR_LABEL)
        return {it["metadata"]["name"]: it for it in found if "deletionTimestamp" not in it["metadata"]}

    def leader(self) -> str:
        """Return the leader's pod; empty without a leader."""
        holder: str = self.system.get("lease", OPERATOR_RELEASE)["spec"].get("holderIdentity", "")
        return holder.rpartition("_")[0]

    def uninstall(self) -> None:
        run("helm", "uninstall", OPERATOR_RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait")

    def restart(self) -> None:
        """Replace its pods, and wait until one of the new ones leads."""
        before = set(self.pods())
        self.system.kubectl("rollout", "restart", f"deployment/{OPERATOR_RELEASE}")
        self.wait_rolled_out()
        self.system.eventually(lambda: self.leader() in set(self.pods()) - before, "one of the new operators leads")

    def wait_rolled_out(self) -> None:
        self.system.kubectl("rollout", "status", f"deployment/{OPERATOR_RELEASE}", "--timeout=200s")

    def kill(self) -> None:
        """Kill all of its pods at once, without a grace period; the Deployment replaces them."""
        self.system.kubectl("delete", "pods", "-l", OPERATOR_LABEL, "--grace-period=0", "--force")

    def logs(self) -> str:
        return self.system.kubectl("logs", "-l", OPERATOR_LABEL, "--tail=-1", "--prefix")


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
