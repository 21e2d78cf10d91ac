"""The OpenTofu engine: its commands and environment, and the files that it reads and writes."""
