"""What pages read that no room of the server reads already; nothing here writes."""
