"""Commands that start, stop, check and maintain the server."""
