"""What the cascade is worth, measured: its speed, and backends side by side."""
