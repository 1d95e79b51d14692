"""OpenAI-compatible servers behind `ChatServer`: their client, and what their errors mean."""
