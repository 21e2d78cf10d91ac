"""Tests of pull requests: what they touch, what is told of them, and what is applied."""
