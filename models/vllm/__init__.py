"""vLLM behind `ChatVLLM` and `mai serve --models`: engines in this process, and servers as children."""
