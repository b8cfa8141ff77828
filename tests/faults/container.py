"""A container that answers every request with 200: as little Python as starts quickly."""

import os
import socket

listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
while True:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
