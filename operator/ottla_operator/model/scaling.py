"""What a Cluster says of scaling and rebalancing, and what its status remembers of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from ottla_operator.model.document import Document

REBALANCE_ANNOTATION = "ottla.dev/rebalance"
PLAN = "plan"
"""An annotation that begins so asks for a plan; another such text for another one."""


class OnScaleUp(StrEnum):
    """What becomes of brokers that come (``spec.scaling.onScaleUp``)."""

    NEW_TOPICS = "NewTopics"
    """They get their share of partitions that are made from then on."""
    REBALANCE = "Rebalance"
    """Partitions that exist are moved to them too."""
    NONE = "None"
    """They are cordoned until they hold a partition that somebody has moved there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """``spec.scaling``."""

    on_scale_up: OnScaleUp = OnScaleUp.NEW_TOPICS
    throttle_bytes_per_s: int | None = None
    """What each broker may copy for moves; None: as fast as it goes."""

    @classmethod
    def parse(cls, document: Document) -> Self:
        return cls(
            on_scale_up=OnScaleUp(document.get("onScaleUp", OnScaleUp.NEW_TOPICS)),
            throttle_bytes_per_s=document.get("throttleBytesPerSecond"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRecord:
    """``status.scaling``: which brokers take part, and what the operator has set on brokers and has to take away again.

    It is written before anything is set, so whatever of ours is left behind is in it; what somebody else has set never.
    """

    brokers: tuple[int, ...] | None = None
    """Those that take part; None before anybody has looked. Others that the spec asks for are new."""
    cordoned: tuple[int, ...] = ()
    """Brokers whose ``cordoned.log.dirs`` is the operator's, gone ones too: their configs outlive them."""
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
    """It can be read."""
    RUNNING = "Running"
    STOPPED = "Stopped"
    """Nobody asks for it any more; what had moved by then has moved."""
    DONE = "Done"
    STALE = "Stale"
    """It does not fit what there is now; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRecord:
    """``status.rebalance``: the last plan, and how far it is."""

    id: str = ""
    request: str = ""
    """What asked for it; empty once that is gone, so that the same text asks again."""
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
    """Everything that a Cluster's manifest and status say of scaling."""

    policy: ScalingPolicy = ScalingPolicy()
    record: ScalingRecord = ScalingRecord()
    asked: str = ""
    """The annotation that asks for a plan, or for one to be carried out."""
    rebalance: RebalanceRecord | None = None

    @classmethod
    def parse(cls, spec: Document, status: Document, annotations: Mapping[str, str]) -> Self:
        rebalance = status.get("rebalance") or {}
        # One of another version, with a phase that nobody knows here, is none.
        is_known = rebalance.get("phase") in set(RebalancePhase)
        return cls(
            policy=ScalingPolicy.parse(spec.get("scaling", {})),
            record=ScalingRecord.parse(status.get("scaling", {})),
            asked=annotations.get(REBALANCE_ANNOTATION, ""),
            rebalance=RebalanceRecord.parse(rebalance) if is_known else None,
        )

    def facts(self) -> Document:
        """Return the status fields that it is remembered by; None removes one."""
        return {
            "scaling": self.record.as_document() or None,
            "rebalance": None if self.rebalance is None else self.rebalance.as_document(),
        }
