"""Images, instance types and secrets that jobs use by name."""
