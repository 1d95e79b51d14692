"""A folder for PYTHONPATH: Python imports its `sitecustomize` in each process that starts."""
