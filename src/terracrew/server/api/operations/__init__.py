"""What the operators of a server need over HTTP: health, metrics, retention, and encryption under a new key."""
