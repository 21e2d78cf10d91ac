"""PostgreSQL behind the storage interface: pools of connections, the database's clock, and wake-ups between servers."""
