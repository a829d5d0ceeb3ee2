"""What pytest calls; each module holds the hooks of one concern."""
