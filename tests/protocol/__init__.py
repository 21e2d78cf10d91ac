"""Tests of what the processes say to each other."""
