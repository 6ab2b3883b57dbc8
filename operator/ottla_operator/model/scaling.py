"""Scaling and rebalancing: their settings in a Cluster's spec, and their records in its status."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from ottla_operator.model.document import Document

REBALANCE_ANNOTATION = "ottla.dev/rebalance"
PLAN = "plan"
"""A value of the annotation that starts with this requests a plan; another such value requests another plan."""


class OnScaleUp(StrEnum):
    """How new brokers get partitions (``spec.scaling.onScaleUp``)."""

    NEW_TOPICS = "NewTopics"
    """They get a share of partitions that are created from then on."""
    REBALANCE = "Rebalance"
    """Existing partitions are moved to them, too."""
    NONE = "None"
    """They are cordoned until an administrator has moved a partition to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """``spec.scaling``."""

    on_scale_up: OnScaleUp = OnScaleUp.NEW_TOPICS
    throttle_bytes_per_s: int | None = None
    """Replication quota of each broker for reassignments; None: unlimited."""

    @classmethod
    def parse(cls, document: Document) -> Self:
        return cls(
            on_scale_up=OnScaleUp(document.get("onScaleUp", OnScaleUp.NEW_TOPICS)),
            throttle_bytes_per_s=document.get("throttleBytesPerSecond"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRecord:
    """``status.scaling``: which brokers participate, and which broker configs the operator set and has to remove.

    It is written before a config is set, so everything of the operator's that is left is in it; configs that an
    administrator set never are.
    """

    brokers: tuple[int, ...] | None = None
    """Participating brokers; None before the first reconciliation. Other brokers of the spec are new."""
    cordoned: tuple[int, ...] = ()
    """Brokers whose ``cordoned.log.dirs`` the operator set, also removed ones: their configs outlive them."""
    throttled_brokers: tuple[int, ...] = ()
    throttled_topics: tuple[str, ...] = ()

    @classmethod
    def parse(cls, document: Document) -> Self:
        brokers, throttle = document.get("brokers"), document.get("throttle", {})
        return cls(
            brokers=None if brokers is None else tuple(brokers),
            cordoned=tuple(document.get("cordoned", ())),
            throttled_brokers=tuple(throttle.get("brokers", ())),
            throttled_topics=tuple(throttle.get("topics", ())),
        )

    def as_document(self) -> Document:
        document: Document = {} if self.brokers is None else {"brokers": list(self.brokers)}
        if self.cordoned:
            document["cordoned"] = list(self.cordoned)
        if self.throttled_brokers or self.throttled_topics:
            document["throttle"] = {"brokers": list(self.throttled_brokers), "topics": list(self.throttled_topics)}
        return document


class RebalancePhase(StrEnum):
    PROPOSED = "Proposed"
    """The plan can be read."""
    RUNNING = "Running"
    STOPPED = "Stopped"
    """The request was withdrawn; partitions that had moved by then stay moved."""
    DONE = "Done"
    STALE = "Stale"
    """The plan does not match the present cluster; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRecord:
    """``status.rebalance``: the last plan, and its progress."""

    id: str = ""
    request: str = ""
    """The annotation that requested it; empty once that is gone, so that the same value is a new request."""
    phase: RebalancePhase = RebalancePhase.PROPOSED
    summary: str = ""
    message: str = ""

    @classmethod
    def parse(cls, document: Document) -> Self:
        return cls(
            id=document["id"],
            request=document.get("request", ""),
            phase=RebalancePhase(document["phase"]),
            summary=document.get("summary", ""),
            message=document.get("message", ""),
        )

    def as_document(self) -> Document:
        document = {
            "id": self.id,
            "request": self.request,
            "phase": str(self.phase),
            "summary": self.summary,
            "message": self.message,
        }
        return {key: value for key, value in document.items() if value}

    def in_phase(self, phase: RebalancePhase, message: str = "") -> Self:
        return replace(self, phase=phase, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Settings and records of a Cluster's scaling."""

    policy: ScalingPolicy = ScalingPolicy()
    record: ScalingRecord = ScalingRecord()
    requested: str = ""
    """The annotation that requests a plan, or its execution."""
    rebalance: RebalanceRecord | None = None

    @classmethod
    def parse(cls, spec: Document, status: Document, annotations: Mapping[str, str]) -> Self:
        rebalance = status.get("rebalance") or {}
        # A record of another version, with an unknown phase, is ignored.
        is_known = rebalance.get("phase") in set(RebalancePhase)
        return cls(
            policy=ScalingPolicy.parse(spec.get("scaling", {})),
            record=ScalingRecord.parse(status.get("scaling", {})),
            requested=annotations.get(REBALANCE_ANNOTATION, ""),
            rebalance=RebalanceRecord.parse(rebalance) if is_known else None,
        )

    def facts(self) -> Document:
        """Return the status fields with the records; None removes a field."""
        return {
            "scaling": self.record.as_document() or None,
            "rebalance": None if self.rebalance is None else self.rebalance.as_document(),
        }
