"""`Ledger`: a pod that writes and reads a topic, and checks that no acknowledged record is lost."""

import json
import uuid

from kubernetes_namespace import BINDING, BOOTSTRAP, ROOT, Document, Namespace


class Ledger:
    """A pod that sends numbers to a topic at a steady pace and reads them along; see tests/ledger.

    With ``user`` it connects with the Secret of that User, as it is when the pod starts.
    """

    def __init__(self, namespace: Namespace, topic: str, user: str | None = None) -> None:
        self.namespace = namespace
        self.topic = topic
        self.name = uuid.uuid4().hex[:8]
        self.pod = f"ledger-{self.name}"
        self._user = user

    def start(self) -> None:
        script = (ROOT / "tests/ledger/ledger_client.py").read_text(encoding="utf-8")
        where, mount = BOOTSTRAP, None
        if self._user is not None:
            where, mount = f"{BINDING}/librdkafka.json", (BINDING, {"secret": {"secretName": self._user}})
        command = ("python3", "-c", script, where, self.topic, self.name)
        self.namespace.start_pod(self.pod, *command, image="ottla/spark:dev", mount=mount)
        self.namespace.wait_ready(f"pod/{self.pod}")

    def check(self) -> Document:
        """Stop it, and compare its records with the topic: none lost, duplicated, unread or rejected."""
        said: Document = json.loads(self.namespace.stop(self.pod))
        self.namespace.kubectl("delete", "pod", self.pod)
        print(f"ledger of {self.topic}: {said['acknowledged']} records, longest stall {said['stall_s']} s")
        if said["sent_twice"]:
            print(f"the client reports that it sent these twice: {said['sent_twice']}")
        assert said["acknowledged"] > 0
        assert not {name: said[name] for name in ("lost", "doubled", "unread", "failed", "errors") if said[name]}
        return said
