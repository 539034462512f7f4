"""Files that groups share, uploads, and artifacts kept from jobs."""
