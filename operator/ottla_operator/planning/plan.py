"""`Plan`: the result of planning, for each kind of object."""

from dataclasses import dataclass

from ottla_operator.model.conditions import Obstacle, Rejected
from ottla_operator.model.operation import Operation
from ottla_operator.model.scaling import Scaling
from ottla_operator.planning.steps.certificate import CertificateStep
from ottla_operator.planning.steps.cluster import ClusterStep
from ottla_operator.planning.steps.topic import TopicStep
from ottla_operator.planning.steps.user import UserStep

Step = TopicStep | ClusterStep | UserStep | CertificateStep


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, and an obstacle if they stop short of the spec.

    A plan with a rejection has no steps: nothing is changed towards a spec that cannot be satisfied.
    """

    steps: tuple[Step, ...] = ()
    obstacle: Obstacle | None = None
    operation: Operation | None = None
    """The operation in progress, including the steps of this plan; None if it needs no record."""
    scaling: tuple[Scaling, Scaling] | None = None
    """The records before the first step, and after the last one; None if brokers were not reached."""

    def __post_init__(self) -> None:
        assert not (self.steps and isinstance(self.obstacle, Rejected)), "a rejected spec changes nothing"
