"""OpenPAI's endpoints for users, groups, tokens and virtual clusters."""
