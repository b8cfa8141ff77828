import semif_server.llama as l

print(l.versions())
