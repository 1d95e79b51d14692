"""The embedded default: a made-up picture world and the trained pair that answers about it."""
