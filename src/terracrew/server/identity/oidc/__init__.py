"""Signed tokens: access tokens of machines, and tokens that jobs show to clouds."""
