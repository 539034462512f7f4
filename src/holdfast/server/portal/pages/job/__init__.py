"""The job list, and the page of one job with its sections."""
