"""`make bench`: the server beside raw llama.cpp and its peers, in one run."""
