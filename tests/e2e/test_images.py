"""What the images say of themselves. That they run without root and a writable root is what every other test shows."""

import json
from typing import Any

import pytest

INVENTORY = "/opt/ottla/share/sbom.cdx.json"


@pytest.mark.parametrize(("image", "package"), [("broker", "PyJWT"), ("operator", "kopf")])
def test_image_lists_what_is_installed_in_it(namespace: Any, image: str, package: str) -> None:
    name = f"inventory-{image}"
    container = {
        "name": name,
        "image": f"ottla/{image}:0.1.0",
        "command": ["/opt/ottla/bin/python", "-c", f"print(open({INVENTORY!r}).read())"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"restartPolicy": "Never", "securityContext": security, "containers": [container]}
    namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    namespace.wait_for("jsonpath={.status.phase}=Succeeded", f"pod/{name}")
    inventory = json.loads(namespace.kubectl("logs", name))
    assert inventory["bomFormat"] == "CycloneDX"
    assert {"ottla", package} <= {it["name"] for it in inventory["components"]}
