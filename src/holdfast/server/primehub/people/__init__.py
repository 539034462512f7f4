"""PrimeHub's users and groups."""
