"""A stand-in for AWS's llama.cpp container on SageMaker: its entry point, its nginx, and a real llama-server.

``python -m localaws.llama_cpp_container serve`` is the container's process 1. The container has a network of
its own; here all share 127.0.0.1, so SM_LLAMA_CPP_PORT and SM_LLAMA_CPP_MODEL_DIR come from the hosting, and
llama-server's port behind nginx is a free one where LLAMA_CPP_UPSTREAM_PORT does not say.
"""
