"""Holds many idle connections in a process of its own: `python3 idle.py HOST PORT COUNT PATH`.

Each has made one request. Prints how many are open, then waits until its standard input ends. Two such processes make
more connections than one may have files.
"""

import socket
import struct
import sys


def main():
    host, port, count, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    held = []
    for _ in range(count):
        connection = socket.create_connection((host, port), timeout=30)
        # By RST at the end: ten thousand sockets in TIME_WAIT would take the ports of the tests that follow.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(request)
        held.append(connection)
        if len(held) >= 64:
            answer_of(held[-64])
    for connection in held[-63:]:
        answer_of(connection)
    print(sum(still_open(connection) for connection in held), flush=True)
    sys.stdin.read()
    print(sum(still_open(connection) for connection in held), flush=True)


def answer_of(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(4096)
        if not chunk:
            raise ConnectionError(f"closed: {data!r}")
        data += chunk
    if not data.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(data.decode(errors="replace"))


def still_open(connection):
    connection.setblocking(False)
    try:
        return bool(connection.recv(65536))
    except BlockingIOError:
        return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
