"""Tests of what people deploy: images, the Compose file, units of systemd."""
