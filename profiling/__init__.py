"""Where the time goes: component latency, and a simulator of the cascade."""
