"""What people may add to the commands of an engine, and blocks that are written for one. Server and executor check the same rules."""
