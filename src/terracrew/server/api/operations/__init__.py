"""What the operators of a server ask of it over HTTP: health, metrics, retention, and encryption under a new key."""
