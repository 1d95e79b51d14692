"""Checkpoints run with transformers, behind `ChatTransformers`."""
