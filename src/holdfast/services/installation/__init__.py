"""The installation: status, effective settings, monitoring and disk usage."""
