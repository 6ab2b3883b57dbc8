"""The metrics of the metadata in use."""

from typing import Final

from ottla.metadata.image import MetadataImage
from ottla.metrics.registry import Rows, gauge

_METADATA: Final = "kafka_server_brokermetadatametrics"

ROWS: Final[Rows[MetadataImage]] = (
    gauge(
        f"{_METADATA}_last_applied_record_offset",
        "Offset of the metadata in use.",
        lambda image: image.provenance.last_contained_offset,
    ),
    gauge(
        f"{_METADATA}_last_applied_record_timestamp",
        "When the newest record of the metadata in use was written, in milliseconds.",
        lambda image: image.provenance.last_contained_log_time_ms,
    ),
)
