"""Stand-ins for the images that `container/Dockerfile` starts from, made here without a registry."""
