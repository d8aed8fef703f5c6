"""People, their tokens and sessions, single sign-on, permissions and rate limits."""
