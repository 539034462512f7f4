"""Job files and job rows for pages."""
