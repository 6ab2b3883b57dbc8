"""Quotas and the replacement of a pod: a dry run of the new pod counts beside the pod that it replaces.

A quota that is full, or nearly so, rejects the dry run of a pod for which there is space as soon as the former one is
gone. The rejection has everything to tell: the amounts of the exceeded resources that are requested, used and limited.
The API server names one quota only: another one may reject the pod later, after its predecessor was stopped, and is
reported then.
"""

import re
from fractions import Fraction

from ottla_operator.model.document import Document
from ottla_operator.model.quantity import thousandths

_EXCEEDED = re.compile(r"exceeded quota: \S+, requested: (\S+), used: (\S+), limited: (\S+)$")
"""Source: CheckRequest in Kubernetes' apiserver/pkg/admission/plugin/resourcequota."""


def fits_in_place_of(former: Document, pod: Document, rejection: str) -> bool:
    """Tell whether ``rejection`` of ``pod`` is about a quota that has space for it once ``former`` is gone.

    A pod of another PriorityClass does not count: quotas may be of one class.
    """
    match = _EXCEEDED.search(rejection)
    classes = [it["spec"].get("priorityClassName") for it in (former, pod)]
    if match is None or classes[1] not in (None, classes[0]):
        return False
    try:
        requested, used, limited = (
            {name: thousandths(amount) for name, _, amount in (it.partition("=") for it in group.split(","))}
            for group in match.groups()
        )
        return all(used[name] - _usage(former, name) + requested[name] <= limited[name] for name in requested)
    except (KeyError, ValueError):
        # Words of another release: a rejection that is reported in vain is better than a node that is lost.
        return False


def _usage(pod: Document, name: str) -> Fraction:
    """Return how much of a resource a quota counts for the pod, in thousandths.

    Source: PodUsageFunc in Kubernetes' pkg/quota/v1/evaluator/core. A sidecar of an init container counts like a
    container.
    """
    if name in ("pods", "count/pods"):
        return thousandths(1)
    section, _, resource = name.partition(".")
    if section not in ("requests", "limits"):
        section, resource = "requests", name
    spec = pod["spec"]
    first = spec.get("initContainers") or []
    sidecars = [it for it in first if it.get("restartPolicy") == "Always"]
    running = sum((_amount(it, section, resource) for it in [*spec["containers"], *sidecars]), Fraction())
    most = max((_amount(it, section, resource) for it in first if it not in sidecars), default=Fraction())
    overhead = thousandths((spec.get("overhead") or {}).get(resource, 0))
    return max(running, most) + overhead


def _amount(container: Document, section: str, resource: str) -> Fraction:
    return thousandths(((container.get("resources") or {}).get(section) or {}).get(resource, 0))
