"""Job files and job rows as pages show them."""
