"""How files are written and JSON is read, whatever they hold: completely or not at all, one meaning only."""
