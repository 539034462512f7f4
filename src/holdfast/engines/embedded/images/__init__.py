"""Imported images: archives read, unpacked and stored."""
