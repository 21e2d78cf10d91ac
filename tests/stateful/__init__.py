"""A model of hosts, executors and people drives a real server at random, and the eight rules are looked at after each step."""
