"""Volumes of one Kubernetes node that a test controls: one of a few MiB, and one whose folder does not exist."""

from typing import Any

from kubernetes_namespace import Namespace

Document = dict[str, Any]
SMALL_SIZE = "16m"
_SYSTEM = Namespace("kube-system")
_SCRIPT = """
import ctypes, os, sys
action, path, options = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)

def call(function, *arguments):
    if function(*arguments):
        raise OSError(ctypes.get_errno(), function.__name__)

call(libc.setns, os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)
if action == "mount":
    os.makedirs(path, exist_ok=True)
    call(libc.mount, b"tmpfs", path.encode(), b"tmpfs", ctypes.c_ulong(0), options.encode())
else:
    call(libc.umount2, path.encode(), 2)
    os.rmdir(path)
"""


def volume(name: str, machine: str, path: str) -> Document:
    """Return a PersistentVolume: a folder of a Kubernetes node, for the claims whose class has the volume's name."""
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [machine]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": name,
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
    }


def mount_small(machine: str, path: str) -> None:
    """Mount a file system of `SMALL_SIZE` at ``path`` of a Kubernetes node."""
    _run_on(machine, "mount", path, f"size={SMALL_SIZE},mode=1777")


def unmount_small(machine: str, path: str) -> None:
    _run_on(machine, "unmount", path, "")


def _run_on(machine: str, *arguments: str) -> None:
    """Run the script in the mount namespace of a Kubernetes node, from a privileged pod."""
    name = f"small-volume-{arguments[0]}"
    container = {
        "name": "mount",
        "image": "ottla/broker:0.1.0",
        "command": ["python", "-c", _SCRIPT, *arguments],
        "securityContext": {"privileged": True, "runAsUser": 0},
    }
    spec = {"hostPID": True, "nodeName": machine, "restartPolicy": "Never", "containers": [container]}
    _SYSTEM.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    try:
        _SYSTEM.finish(name)
    finally:
        _SYSTEM.kubectl("delete", "pod", name, "--ignore-not-found")
