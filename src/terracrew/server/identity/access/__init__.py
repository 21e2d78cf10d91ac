"""Service accounts, their secrets, and the roles that people and service accounts have."""
