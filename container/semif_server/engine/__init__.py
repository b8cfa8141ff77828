"""The decision engine: tasks in, results out; one thread owns the llama.cpp context."""
