"""Notifications: people manage the channels that tell them of events, and a loop sends what is in the outbox."""
