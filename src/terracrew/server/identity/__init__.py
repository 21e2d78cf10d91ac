"""Who somebody is: people, service accounts and roles, signed tokens and their keys, limits on guesses."""
