"""Tests of what places add to steps."""
