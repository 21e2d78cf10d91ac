"""Counters and histograms, and what the process measures about itself. `api/metrics` publishes them."""
