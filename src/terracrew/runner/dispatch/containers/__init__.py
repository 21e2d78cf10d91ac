"""What the dispatchers `docker`, `kubernetes` and `ecs` share: whose containers they are, how a start is followed, settings."""
