"""SCIM 2.0 (RFC 7643, 7644): by this interface an identity provider creates, changes and deactivates people and groups."""
