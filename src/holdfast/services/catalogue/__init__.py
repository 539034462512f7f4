"""What admins offer to jobs by name: images, instance types, secrets."""
