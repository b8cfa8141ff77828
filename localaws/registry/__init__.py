"""The image registry: ECR's images with their real manifests and blobs, and a `docker` for builds."""
