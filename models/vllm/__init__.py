"""vLLM behind `ChatVLLM` and `mai serve`: engines in this process, and servers as children."""
