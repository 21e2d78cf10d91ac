"""What executors are started with, where a runner can pass on only a ticket: kept encrypted until it is fetched once."""
