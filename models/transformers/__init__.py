"""Checkpoints run with transformers, behind `ChatTransformers`."""

from ..site.sitecustomize import fit_torch_packages

# Before anything here imports torchvision, which may be one for CUDA beside a CPU torch.
fit_torch_packages()
