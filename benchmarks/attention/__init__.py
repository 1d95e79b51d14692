"""What a large model attends to in a reasoning: measured, drawn, and used to choose a layer."""
