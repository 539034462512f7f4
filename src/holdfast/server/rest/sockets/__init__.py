"""WebSockets of the REST API: exec sessions and ports inside tasks."""
