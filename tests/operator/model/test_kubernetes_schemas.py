"""Applied objects validate against Kubernetes' own schemas, of each supported release."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

GOLDEN = Path(__file__).parent / "golden"
OLDEST = "1.29.0"
"""As stated by the charts."""

Document = dict[str, Any]


def objects(name: str) -> list[Any]:
    found = yaml.safe_load_all((GOLDEN / name).read_text())
    return [pytest.param(it, id=f"{it['kind']}-{it['metadata']['name']}") for it in found]


@pytest.mark.parametrize("release", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("document", [*objects("cluster-objects.yaml"), *objects("placed-pool.yaml")])
def test_object_is_as_kubernetes_defines_it(document: Document, release: str) -> None:
    looked_up = kubernetes_validate.validate(document, release, strict=True)

    assert release.startswith(looked_up)


def test_object_that_kubernetes_does_not_define_so_is_found() -> None:
    [service, *_] = [it.values[0] for it in objects("cluster-objects.yaml") if it.values[0]["kind"] == "Service"]
    wrong = {**service, "spec": {**service["spec"], "publishNotReadyAdresses": True}}

    with pytest.raises(kubernetes_validate.ValidationError, match="publishNotReadyAdresses"):
        kubernetes_validate.validate(wrong, OLDEST, strict=True)
