"""Outages of self-hosted runners: what people are notified of when a runner stays away, and when it is back."""
