"""What people and agents call: the `mai` command line."""
