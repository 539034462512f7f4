"""Images of jobs: pulls before they start, credentials, and clean-up."""
