"""From qualified configs to verdicts about committed ones: arms that are timed, gates, refresh."""
