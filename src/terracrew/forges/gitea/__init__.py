"""Gitea, and Forgejo, which has the same API."""
