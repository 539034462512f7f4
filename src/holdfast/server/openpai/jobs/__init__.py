"""OpenPAI's job endpoints, of both protocols."""
