"""The exit codes of an executor, by which it tells the process that started it how the attempt's delivery ended."""

DELIVERED = 0
"""The server has acknowledged everything."""
UNDELIVERED = 3
"""The server refused this attempt for good, with an error code of Terracrew. The directory holds what it did not accept."""
INCOMPATIBLE = 4
"""The server does not speak this protocol version. An updated runner delivers what the directory holds."""
CRASHED = 70
"""The executor failed with an exception that it did not expect; its log has the traceback."""
NOTHING_LEFT = 74
"""There is no directory of this attempt any more, so nothing of it can be delivered."""
IN_USE = 75
"""The attempt was handed back, or another process holds its directory. This executor did nothing."""
