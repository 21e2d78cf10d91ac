"""What pages read that no package below reads already; nothing here writes."""
