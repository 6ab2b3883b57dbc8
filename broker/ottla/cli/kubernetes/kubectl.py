"""kubectl as a subprocess: it has the credentials of the API server."""

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ottla.cli.exit_codes import NotFoundError
from ottla.errors import OttlaError

Document: TypeAlias = dict[str, Any]

CLUSTERS = "clusters.ottla.dev"
_TIMEOUT_S = 60.0


class KubectlError(OttlaError):
    """kubectl or the API server returned an error; the message is theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """Runs ``kubectl`` with the same options each time."""

    options: Sequence[str] = ()
    """As ``--context`` and ``--namespace``."""

    def command(self, *arguments: str) -> list[str]:
        """Return the command line with ``arguments``."""
        return ["kubectl", *self.options, *arguments]

    def run(self, *arguments: str) -> str:
        """Run kubectl and return what it printed.

        Raises:
            NotFoundError: the requested object does not exist.
            KubectlError: it cannot be run, or failed otherwise.
        """
        try:
            done = subprocess.run(
                self.command(*arguments), check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
            )
        except FileNotFoundError:
            raise KubectlError("kubectl is not in $PATH; install it, it is what reaches the cluster") from None
        except subprocess.TimeoutExpired:
            raise KubectlError(f"kubectl {arguments[0]} had no response after {_TIMEOUT_S:g} s") from None
        if done.returncode:
            said = done.stderr.strip().removeprefix("error: ") or f"it ended with {done.returncode}"
            kind = NotFoundError if "(NotFound)" in said else KubectlError
            raise kind(f"kubectl {' '.join(arguments[:2])}: {said}")
        return done.stdout

    def get(self, *arguments: str) -> Document:
        """Return the result of ``kubectl get``; a List for several objects. Raises as `run`."""
        found: Document = json.loads(self.run("get", *arguments, "-o", "json"))
        return found

    def merge(self, resource: str, name: str, patch: Mapping[str, Any]) -> None:
        """Apply a JSON merge patch to one object; raises as `run`."""
        self.run("patch", resource, name, "--type=merge", f"--patch={json.dumps(patch)}")

    def secret(self, name: str) -> Mapping[str, bytes]:
        """Return the entries of a Secret; raises as `run`."""
        entries = self.get("secret", name).get("data") or {}
        return {key: base64.b64decode(value) for key, value in entries.items()}


def condition_of(conditions: Sequence[Document], kind: str) -> Document:
    """Return the condition of type ``kind``; an empty one if there is none."""
    return next((it for it in conditions if it["type"] == kind), {})
