"""Wire formats, each to and from the engine's tasks and results."""
