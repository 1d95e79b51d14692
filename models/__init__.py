"""Local vision chat models for LangChain, and the images that they read."""
