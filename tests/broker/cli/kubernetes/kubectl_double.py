"""A kubectl whose API server is a folder of JSON files: ``get``, ``patch``, ``port-forward``, as the plugin uses them.

With ``ACTIVE`` in the folder, each read after a restart request replaces one old pod; with ``HALTED`` the first
one fails; with ``PLANS`` a request creates a plan; with ``SILENT`` no forward starts. Every command line is written to
``said``, and the process of every forward to ``forwarders``.
"""

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(os.environ["KUBECTL_DOUBLE"])


def main() -> int:
    with (ROOT / "said").open("a") as said:
        said.write(json.dumps(sys.argv[1:]) + "\n")
    words = [it for it in sys.argv[1:] if not it.startswith("--context=")]
    if words and words[0].startswith("--namespace="):
        words = words[1:]
    return {"get": get, "patch": patch, "port-forward": forward}[words[0]](words[1:])


def get(words: list[str]) -> int:
    assert words[-2:] == ["-o", "json"]
    if words[0] == "pods":
        roll()
    if (ROOT / "PLANS").exists():
        plan()
    options = [it for it in words[1:-2] if it.startswith("--")]
    named = [it for it in words[1:-2] if it not in options]
    if named:
        file = path(words[0], named[0])
        if not file.is_file():
            print(f'Error from server (NotFound): {words[0]} "{named[0]}" not found', file=sys.stderr)
            return 1
        print(file.read_text())
    else:
        items = [read(it) for it in sorted((ROOT / words[0]).glob("*.json"))]
        for namespace in (it.removeprefix("--namespace=") for it in options if it.startswith("--namespace=")):
            items = [it for it in items if it["metadata"]["namespace"] == namespace]
        print(json.dumps({"items": items}))
    return 0


def patch(words: list[str]) -> int:
    resource, name, kind, given = words
    file, change = path(resource, name), json.loads(given.removeprefix("--patch="))
    document = read(file)
    if kind == "--type=merge":
        document = merged(document, change)
    else:
        for operation in change:
            *parents, last = operation["path"].strip("/").split("/")
            holder: Any = document
            for step in parents:
                holder = holder[int(step)] if isinstance(holder, list) else holder[step]
            if operation["op"] == "test" and holder[last] != operation["value"]:
                print(
                    "Error from server: the server rejected our request due to an error in our request", file=sys.stderr
                )
                return 1
            holder[last] = operation["value"]
    file.write_text(json.dumps(document))
    return 0


def merged(target: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def roll() -> None:
    cluster = read(path("clusters.ottla.dev", "demo"))
    wanted = cluster["metadata"].get("annotations", {}).get("ottla.dev/restart")
    old = [it for it in sorted((ROOT / "pods").glob("*.json")) if read(it)["metadata"]["uid"] != wanted]
    if wanted is None or not old:
        return
    if (ROOT / "HALTED").exists():
        condition = {"type": "Degraded", "status": "True", "reason": "RollHalted", "message": "node demo-main-0 fails"}
        cluster["status"]["conditions"].append(condition)
        path("clusters.ottla.dev", "demo").write_text(json.dumps(cluster))
    elif (ROOT / "ACTIVE").exists():
        pod = read(old[0])
        pod["metadata"]["uid"] = wanted
        old[0].write_text(json.dumps(pod))


def plan() -> None:
    cluster = read(path("clusters.ottla.dev", "demo"))
    asked = cluster["metadata"].get("annotations", {}).get("ottla.dev/rebalance")
    cluster["status"]["rebalance"] = {"id": "r1", "phase": "Proposed", "request": asked}
    path("clusters.ottla.dev", "demo").write_text(json.dumps(cluster))


def forward(words: list[str]) -> int:
    _, target, ports = words
    address = ROOT / "addresses" / target.replace("/", "-")
    if not address.is_file():
        print(f"Error from server (NotFound): {target} not found", file=sys.stderr)
        return 1
    if (ROOT / "SILENT").exists():
        signal.pause()
    with (ROOT / "forwarders").open("a") as forwarders:
        forwarders.write(f"{os.getpid()}\n")
    server = socket.create_server(("127.0.0.1", 0))
    print(f"Forwarding from 127.0.0.1:{server.getsockname()[1]} -> {ports.removeprefix(':')}", flush=True)
    while True:
        client, _ = server.accept()
        host, port = address.read_text().split(":")
        upstream = socket.create_connection((host, int(port)))
        for source, sink in ((client, upstream), (upstream, client)):
            threading.Thread(target=relay, args=(source, sink), daemon=True).start()


def relay(source: socket.socket, sink: socket.socket) -> None:
    while data := source.recv(1 << 16):
        sink.sendall(data)
    sink.close()


def path(resource: str, name: str) -> Path:
    return ROOT / resource / f"{name}.json"


def read(file: Path) -> Any:
    return json.loads(file.read_text())


sys.exit(main())
