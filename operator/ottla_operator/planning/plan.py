"""`Plan`: what planning returns, for each kind of object."""

from dataclasses import dataclass

from ottla_operator.model.conditions import Obstacle, Refused
from ottla_operator.model.operation import Operation
from ottla_operator.model.scaling import Scaling
from ottla_operator.planning.steps.certificate import CertificateStep
from ottla_operator.planning.steps.cluster import ClusterStep
from ottla_operator.planning.steps.topic import TopicStep
from ottla_operator.planning.steps.user import UserStep

Step = TopicStep | ClusterStep | UserStep | CertificateStep


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order and, where they do not lead all the way, what is waited for or refused.

    A refusal comes without steps: what cannot become as the spec asks is left as it is.
    """

    steps: tuple[Step, ...] = ()
    obstacle: Obstacle | None = None
    operation: Operation | None = None
    """What is under way, the steps of this plan included; None when nothing is that would be worth a record."""
    scaling: tuple[Scaling, Scaling] | None = None
    """What is to be remembered before the first step, and after the last one; None when brokers were not asked."""

    def __post_init__(self) -> None:
        assert not (self.steps and isinstance(self.obstacle, Refused)), "a refused spec changes nothing"
