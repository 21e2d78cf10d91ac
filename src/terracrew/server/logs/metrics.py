"""Counts the logs that this process has moved to the object store."""

from terracrew.server.metrics.instruments import Counter, Histogram

moved_logs = Counter("terracrew_log_objects_written", "Log objects that were written by moving finished logs")
moved_bytes = Counter("terracrew_log_moved_bytes", "Bytes of finished logs that were moved to the object store")
ALL: tuple[Counter | Histogram, ...] = (moved_logs, moved_bytes)
