"""People, tokens, permissions, rate limits."""
