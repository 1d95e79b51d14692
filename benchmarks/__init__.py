"""What the cascade is worth, measured."""
