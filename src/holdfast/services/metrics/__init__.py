"""Resource usage of jobs over time, usage reports, and metrics of the server."""
