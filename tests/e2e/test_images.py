"""Labels and contents of the images. All other tests show that they run without root and with a read-only root."""

import json
from typing import Any

import pytest

INVENTORY = "/opt/ottla/share/sbom.cdx.json"
# A slim Python is about 45 MB; 120 MB is the limit for a whole image.
ADDED_MB_MAX = {"broker": 30, "operator": 35}
COMPRESSED_MB = """
import tarfile

class Counted:
    size = 0
    def write(self, data):
        self.size += len(data)

with tarfile.open(fileobj=(counted := Counted()), mode="w|gz") as layer:
    layer.add("/opt/ottla")
print(counted.size / 1e6)
"""


@pytest.mark.parametrize(("image", "package"), [("broker", "PyJWT"), ("operator", "kopf")])
def test_image_lists_what_is_installed_in_it(namespace: Any, image: str, package: str) -> None:
    name, script = f"inventory-{image}", f"print(open({INVENTORY!r}).read())"
    namespace.start_pod(name, "/opt/ottla/bin/python", "-c", script, image=f"ottla/{image}:0.1.0")
    inventory = json.loads(namespace.finish(name))
    assert inventory["bomFormat"] == "CycloneDX"
    assert {"ottla", package} <= {it["name"] for it in inventory["components"]}


@pytest.mark.parametrize("image", ADDED_MB_MAX)
def test_image_adds_little_to_its_base(namespace: Any, image: str) -> None:
    name = f"size-{image}"
    namespace.start_pod(name, "/opt/ottla/bin/python", "-c", COMPRESSED_MB, image=f"ottla/{image}:0.1.0")
    added_mb = float(namespace.finish(name))
    print(f"ottla/{image} adds {added_mb:.1f} MB to its base, compressed")
    assert added_mb < ADDED_MB_MAX[image]
