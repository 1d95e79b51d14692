"""What is measured: backends and speed."""
