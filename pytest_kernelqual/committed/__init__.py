"""What `committed_configs/` holds: its files, the reasons to refuse one, the token of what they were chosen from."""
