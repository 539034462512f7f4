"""Jobs, their attempts, events and everything derived from them."""
