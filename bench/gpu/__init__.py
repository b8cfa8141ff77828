"""The GPU benchmark: our server on a machine with one NVIDIA GPU and no network (docs/gpu-benchmark.md)."""
