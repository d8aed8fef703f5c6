"""People, tokens and sessions, single sign-on, permissions, rate limits."""
