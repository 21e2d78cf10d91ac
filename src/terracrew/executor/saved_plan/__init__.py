"""Saves a plan with its workspace until somebody approves it, and restores it afterwards."""
