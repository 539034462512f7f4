"""Commands about datasets, files, images, instance types and secrets."""
