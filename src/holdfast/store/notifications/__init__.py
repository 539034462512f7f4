"""Notifications, their recipients and the events they are made from."""
