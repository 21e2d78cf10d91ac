"""Secrets that the server keeps: the master key that encrypts what it stores, and the credentials that it gives out."""
