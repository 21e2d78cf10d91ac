"""What people have to be told: the channels of places, and the outbox that a change writes what it tells of into."""
