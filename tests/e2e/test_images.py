"""What the images say of themselves. That they run without root and a writable root is what every other test shows."""

import json
from typing import Any

import pytest

INVENTORY = "/opt/ottla/share/sbom.cdx.json"


@pytest.mark.parametrize(("image", "package"), [("broker", "PyJWT"), ("operator", "kopf")])
def test_image_lists_what_is_installed_in_it(namespace: Any, image: str, package: str) -> None:
    name, script = f"inventory-{image}", f"print(open({INVENTORY!r}).read())"
    namespace.start_pod(name, "/opt/ottla/bin/python", "-c", script, image=f"ottla/{image}:0.1.0")
    inventory = json.loads(namespace.finish(name))
    assert inventory["bomFormat"] == "CycloneDX"
    assert {"ottla", package} <= {it["name"] for it in inventory["components"]}
