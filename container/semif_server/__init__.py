"""The SemIf decision server: FastAPI in front of one llama.cpp context."""

__version__ = "0.1.0"
