"""The exit codes of an executor, by which it tells the process that started it how the attempt's delivery ended."""

DELIVERED = 0
"""The server has acknowledged everything."""
UNDELIVERED = 3
"""The server refused this attempt for good, with an error code of Terracrew. The directory holds what it did not accept."""
INCOMPATIBLE = 4
"""The server does not speak this protocol version. An updated runner delivers what the directory holds."""
CRASHED = 70
"""The executor failed with an exception that it did not expect; its log has the traceback."""
NOT_DURABLE = 73
"""The start of the attempt could not be synced to the disk. This executor did nothing."""
NOTHING_LEFT = 74
"""There is no directory of this attempt any more, so nothing of it can be delivered."""
IN_USE = 75
"""The attempt was handed back, or another process holds its directory. This executor did nothing."""

# Only the first process of a container without a volume ends with these (`executor/container/ends.py`).
SALVAGED = 76
"""The executor died, and what it left was delivered before the container ended."""
ABANDONED = 77
"""The executor had begun, and what it left was not delivered. It is lost with the container."""
NOT_BEGUN = 78
"""No executor has begun in the container, and none will."""
TICKET_REFUSED = 79
"""As `NOT_BEGUN`: the server refused the ticket of the container, because another process has used it or it was revoked."""
