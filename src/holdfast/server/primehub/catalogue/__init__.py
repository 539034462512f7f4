"""PrimeHub's images, instance types, volumes and secrets."""
