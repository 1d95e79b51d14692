"""vLLM behind `ChatVLLM` and `mai serve --models`: engines here, and servers as children."""
