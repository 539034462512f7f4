"""What runs beside the server or inside tasks, as programs of their own."""
