"""The storage interface: one set of queries and migrations for SQLite and PostgreSQL."""

from terracrew.server.db.open import open_database
from terracrew.server.db.seam import Columns, Database, Param, Row, Tx, Wakeups, Work

__all__ = ["Columns", "Database", "Param", "Row", "Tx", "Wakeups", "Work", "open_database"]
