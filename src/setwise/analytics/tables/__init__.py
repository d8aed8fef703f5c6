"""Tables: where they are, their columns, public domains, prepared copies."""
