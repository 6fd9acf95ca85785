"""HTTP by hand.

`RawConnection` sends any bytes and reads answers strictly: a body shorter than announced is an error, never a short
result. `request` is the client that tests use for ordinary calls. It sends `Expect: 100-continue` before a body, as
curl does, and follows redirects with method and body kept.
"""

import fcntl
import http.client
import io
import json
import re
import select
import socket
import struct
import termios
import urllib.parse
from dataclasses import dataclass, field

from harness.waiting import scaled, wait_until

TCP_REPAIR = 19  # of <linux/tcp.h>: a socket that is closed in this state says nothing
REDIRECTS = (301, 302, 303, 307, 308)
MOST_HOPS = 5  # by a proxy, and four times by targets while names move
PATIENCE = 60  # seconds without a byte: the cluster itself tries a list for 30, and tests that wait try again within GUARD


class ProtocolError(Exception):
    """The answer is no HTTP/1.1, or is cut short."""


@dataclass
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes = b""
    url: str = ""
    hops: list = field(default_factory=list)  # (status, Location) of the redirects on the way

    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode(errors="replace")

    def __repr__(self):
        return f"<{self.status} from {self.url}: {self.text[:300]!r}>"


class RawConnection:
    """One TCP connection to `url`'s host and port (or a (host, port) pair)."""

    def __init__(self, url, timeout=None):
        if isinstance(url, str):
            parts = urllib.parse.urlsplit(url)
            url = (parts.hostname, parts.port)
        self.address = url
        self.socket = socket.create_connection(url, timeout=scaled(PATIENCE if timeout is None else timeout))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    def reset(self):
        """Closes with RST instead of FIN, as a crashed client's kernel would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def vanish(self):
        """Closes without notice to the other side, as a machine that loses its power. It first waits until all that was
        sent has arrived, since an acknowledgement would be answered. Needs root."""
        unsent = bytearray(4)
        wait_until(lambda: not fcntl.ioctl(self.socket, termios.TIOCOUTQ, unsent) and not any(unsent), 5, "all was sent")
        self.socket.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def send_head(self, method, target, headers=()):
        """A request head in good form; `headers` is a dict or (name, value) pairs. Host is added when missing."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        if not any(name.lower() == "host" for name, _ in pairs):
            pairs.insert(0, ("Host", f"{self.address[0]}:{self.address[1]}"))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs), "", ""]
        self.send("\r\n".join(lines).encode("latin-1"))

    def read_head(self):
        """(status, headers) of the next answer, an interim one (100) too."""
        line = self.reader.readline(65536)
        if not line:
            raise ConnectionResetError("the connection was closed before an answer")
        match = re.fullmatch(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ?([^\r\n]*)\r\n", line)
        if not match:
            raise ProtocolError(f"no status line: {line!r}")
        return int(match.group(1)), http.client.parse_headers(self.reader)

    def read_response(self, method="GET"):
        """The next final answer with its whole body; interim answers are skipped."""
        status, headers = self.read_head()
        while status < 200:
            status, headers = self.read_head()
        return Response(status, headers, b"".join(self.body(method, status, headers)))

    def body(self, method, status, headers, size=1 << 16):
        """The body in chunks, framed as RFC 9112 says."""
        if method == "HEAD" or status in (204, 304):
            return
        if headers.get("Transfer-Encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif "Content-Length" in headers:
            yield from self._exactly(int(headers["Content-Length"]), size)
        else:
            while chunk := self.reader.read1(size):
                yield chunk

    def _exactly(self, left, size):
        while left:
            chunk = self.reader.read1(min(left, size))
            if not chunk:
                raise ProtocolError(f"the body ended {left} bytes early")
            left -= len(chunk)
            yield chunk

    def _chunks(self):
        while True:
            line = self.reader.readline(1024)
            match = re.fullmatch(rb"([0-9A-Fa-f]+)(;[^\r\n]*)?\r\n", line)
            if not match:
                raise ProtocolError(f"no chunk size: {line!r}")
            size = int(match.group(1), 16)
            if size == 0:
                while self.reader.readline(65536) not in (b"\r\n", b""):
                    pass
                return
            yield from self._exactly(size, 1 << 16)
            if self.reader.read(2) != b"\r\n":
                raise ProtocolError("no line end after a chunk")

    def read_to_end(self):
        """Everything until the peer closes; a reset counts as a close."""
        chunks = io.BytesIO()
        try:
            while chunk := self.reader.read1(1 << 16):
                chunks.write(chunk)
        except ConnectionResetError:
            pass
        return chunks.getvalue()

    def is_readable(self, seconds=0.0):
        """True if something (an answer, or the end) can be read within `seconds`."""
        return bool(select.select([self.socket], [], [], seconds)[0])

    def is_closed_by_peer(self, seconds):
        """True if the peer closes within `seconds`; what it still sends is dropped."""
        self.socket.settimeout(scaled(seconds))
        try:
            self.read_to_end()
            return True
        except TimeoutError:
            return False


class Stream:
    """An answer whose body is read at the test's own pace."""

    def __init__(self, connection, method, status, headers, url, hops):
        self.connection = connection
        self.status, self.headers, self.url, self.hops = status, headers, url, hops
        self._chunks = connection.body(method, status, headers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def __iter__(self):
        return self._chunks

    def read_at_least(self, size):
        """Reads until `size` bytes have come, or the end."""
        data = bytearray()
        for chunk in self._chunks:
            data += chunk
            if len(data) >= size:
                break
        return bytes(data)

    def response(self):
        """Reads the rest."""
        return Response(self.status, self.headers, b"".join(self._chunks), self.url, self.hops)


def target_of(url):
    parts = urllib.parse.urlsplit(url)
    return (parts.path or "/") + ("?" + parts.query if parts.query else "")


def _framing(body):
    """Headers that announce `body`: bytes have a length, anything else that can be iterated goes in chunks."""
    if body is None:
        return {}
    if isinstance(body, (bytes, bytearray, memoryview)):
        return {"Content-Length": str(len(body))}
    return {"Transfer-Encoding": "chunked"}


def _send_body(connection, body):
    if isinstance(body, (bytes, bytearray, memoryview)):
        connection.send(body)
        return
    for chunk in body:
        if chunk:
            connection.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
    connection.send(b"0\r\n\r\n")


def _one_exchange(method, url, body, headers, expect, timeout):
    """Sends one request and reads the head of its final answer."""
    connection = RawConnection(url, timeout)
    try:
        wait = expect and body is not None and not (isinstance(body, (bytes, bytearray)) and not body)
        fields = {"Connection": "close"} | _framing(body) | ({"Expect": "100-continue"} if wait else {})
        connection.send_head(method, target_of(url), fields | dict(headers or {}))
        status, answer = connection.read_head() if wait else (100, None)
        if status == 100 and body is not None:
            try:
                _send_body(connection, body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # an early final answer may be there to read; if not, reading says so
        while status < 200:
            status, answer = connection.read_head()
        return connection, status, answer
    except BaseException:
        connection.close()
        raise


def open_stream(method, url, body=None, headers=None, follow=True, expect=True, timeout=None):
    """As `request`, but the body of the answer is left to be read."""
    hops = []
    while True:
        connection, status, answer = _one_exchange(method, url, body, headers, expect, timeout)
        if not (follow and status in REDIRECTS and "Location" in answer):
            return Stream(connection, method, status, answer, url, hops)
        connection.close()
        hops.append((status, answer["Location"]))
        if len(hops) > MOST_HOPS:
            raise ProtocolError(f"redirected too often: {hops}")
        url = urllib.parse.urljoin(url, answer["Location"])


def request(method, url, body=None, headers=None, follow=True, expect=True, timeout=None):
    """One call and its whole answer. `body` is bytes, or an iterable that is sent in chunks (once). `timeout`: seconds after which
    the client gives up, for tests of just that; without it a limit guards against hanging."""
    with open_stream(method, url, body, headers, follow, expect, timeout) as stream:
        return stream.response()
