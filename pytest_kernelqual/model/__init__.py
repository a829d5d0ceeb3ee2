"""Nouns: what is declared (spec, case, config) and what is produced (outcome, record). No decisions, no devices."""
