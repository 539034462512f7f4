"""Commands for datasets, files, images, instance types and secrets."""
