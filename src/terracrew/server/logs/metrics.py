"""Counts the logs that this process has moved to the object store."""

from prometheus_client import Counter

from terracrew.server.metrics.process import registry

moved_logs = Counter(
    "terracrew_log_objects_written", "Log objects that were written by moving finished logs", registry=registry
)
moved_bytes = Counter(
    "terracrew_log_moved_bytes", "Bytes of finished logs that were moved to the object store", registry=registry
)
