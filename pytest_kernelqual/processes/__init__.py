"""The parent's side of the device process."""
