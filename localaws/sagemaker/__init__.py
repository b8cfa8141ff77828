"""SageMaker of the local AWS: control plane, hosting in real processes, and the runtime.

`backend.SageMakerBackend` is the entrance. `lifecycle` decides and never waits; `images`, `model_data`,
`container`, `shim` and `container_logs` are the edge that fetches, starts, watches and stops.
"""
