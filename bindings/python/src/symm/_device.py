"""DLPack's device types, as far as symm's memory may lie on them."""

from __future__ import annotations

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
