"""Notifications: creation, texts, and delivery by mail or webhook."""
