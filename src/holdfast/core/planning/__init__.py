"""Planning of one job: its next state and steps."""
