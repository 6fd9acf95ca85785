"""Clients that write down what they do: the load under which faults are injected.

A `Client` belongs to one thread, keeps its connections, follows redirects, never retries, and logs every
call as an `Op` (history.py), whatever came of it.
"""

import dataclasses
import json
import select
import socket
import threading
import urllib.parse

from harness.client import MOST_HOPS
from harness.waiting import scaled
from history import Op, describe_body, now_ns, value_bytes

REDIRECTS = (301, 302, 307, 308)


class Disconnected(Exception):
    """No whole answer came."""


class Connection:
    """One keep-alive connection that speaks just enough HTTP/1.1, strictly: a short body is no body."""

    def __init__(self, address, timeout):
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def close(self):
        self.socket.close()

    def exchange(self, head, body=b"", expect=False):
        """(status, headers, body, reusable)"""
        if expect:
            self.socket.sendall(head)
            status, headers = self._head()
            if status == 100:
                self.socket.sendall(body)
                status, headers = self._final_head()
        else:
            self.socket.sendall(head + body)
            status, headers = self._final_head()
        data, reusable = self._body(status, headers, head.startswith(b"HEAD"))
        return status, headers, data, reusable and headers.get("connection", "").lower() != "close"

    def _receive(self):
        chunk = self.socket.recv(262144)
        if not chunk:
            raise Disconnected("closed before the end of the answer")
        return chunk

    def _final_head(self):
        while True:
            status, headers = self._head()
            if status >= 200:
                return status, headers

    def _head(self):
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            self.buffer += self._receive()
        lines = self.buffer[:end].decode("latin-1").split("\r\n")
        self.buffer = self.buffer[end + 4 :]
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(lines[0].split(" ")[1]), headers

    def _body(self, status, headers, is_head):
        if is_head or status in (204, 304):
            return b"", True
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(), True
        if "content-length" not in headers:
            data = [self.buffer]
            while chunk := self.socket.recv(262144):
                data.append(chunk)
            return b"".join(data), False
        return self._take(int(headers["content-length"])), True

    def _take(self, length):
        chunks, have = [self.buffer], len(self.buffer)
        while have < length:
            chunk = self._receive()
            chunks.append(chunk)
            have += len(chunk)
        data = b"".join(chunks)
        self.buffer = data[length:]
        return data[:length]

    def _chunks(self):
        data = b""
        while True:
            while (end := self.buffer.find(b"\r\n")) < 0:
                self.buffer += self._receive()
            size = int(self.buffer[:end].split(b";")[0], 16)
            self.buffer = self.buffer[end + 2 :]
            data += self._take(size)
            if self._take(2) != b"\r\n":
                raise Disconnected("a chunk without an end")
            if size == 0:
                return data


class Client:
    """One client of the store. `endpoints`: URLs of proxies or relays, used in turn; `recorder`: history.Recorder."""

    def __init__(self, recorder, name, endpoints, timeout=10.0):
        self.log = recorder.client(name)
        self.recorder = recorder
        self.endpoints = [urllib.parse.urlsplit(url) for url in endpoints]
        self.timeout = scaled(timeout)
        self._connections = {}
        self._turn = 0

    def close(self):
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- calls; each returns the Op that it has logged ---

    def put(self, bucket, name, size, if_none_match=False, if_match=""):
        value, size = self.recorder.new_value(size, bucket, name)
        body = value_bytes(value, size)
        headers = {"If-None-Match": "*"} if if_none_match else {"If-Match": if_match} if if_match else {}
        op = self._begin("put", bucket, name)
        op.value, op.length, op.if_none_match, op.if_match = value, size, if_none_match, if_match
        return self._end(op, self._call("PUT", self._path(bucket, name), headers, body))

    def delete(self, bucket, name):
        op = self._begin("delete", bucket, name)
        return self._end(op, self._call("DELETE", self._path(bucket, name)))

    def get(self, bucket, name, part=None, if_match=""):
        """`part`: (first, last) byte."""
        headers = {"If-Match": if_match} if if_match else {}
        if part:
            headers["Range"] = f"bytes={part[0]}-{part[1]}"
        op = self._begin("get", bucket, name)
        op.if_match = if_match
        answer = self._call("GET", self._path(bucket, name), headers)
        if answer and answer[0] in (200, 206):
            _, fields, body = answer
            if answer[0] == 206:
                span, _, total = fields.get("content-range", "bytes 0-0/-1").removeprefix("bytes ").partition("/")
                op.offset, op.total = int(span.split("-")[0]), int(total)
            else:
                op.total = len(body)
            describe_body(op, body)
        return self._end(op, answer)

    def head(self, bucket, name):
        op = self._begin("head", bucket, name)
        answer = self._call("HEAD", self._path(bucket, name))
        if answer and answer[0] == 200:
            op.total = int(answer[1].get("content-length", -1))
        return self._end(op, answer)

    def list(self, bucket, prefix="", pagesize=0):
        """All pages as one operation; it has failed when one of them has."""
        op = self._begin("list", bucket, prefix)
        names, token, listing = [], "", ""
        while True:
            value = {"props": "name,size", "prefix": prefix, "pagesize": pagesize, "continuation_token": token,
                     "uuid": listing}
            body = json.dumps({"action": "list", "name": "", "value": value}).encode()
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            answer = self._call("GET", f"/v1/buckets/{bucket}?provider=ais", headers, body)
            if not answer or answer[0] != 200:
                return self._end(op, answer)
            page = json.loads(answer[2])
            names += [[entry["name"], int(entry.get("size", 0)), None] for entry in page.get("entries") or []]
            token, listing = page.get("continuation_token", ""), page.get("uuid", "")
            if not token:
                op.names = names
                return self._end(op, answer)

    def create_bucket(self, bucket, props=None):
        """The status, 0 without an answer. Nothing is logged: it changes no object."""
        answer = self._act("POST", bucket, "create-bck", props)
        return answer[0] if answer else 0

    def destroy_bucket(self, bucket, names):
        """Logged as a DELETE of each of these names, which are all that the bucket can have: one of these calls."""
        op = self._begin("delete", bucket, "")
        answer = self._act("DELETE", bucket, "destroy-bck")
        op.ret, op.status = now_ns(), answer[0] if answer else 0
        return [self.log.append(dataclasses.replace(op, name=name)) for name in names][0]

    # --- below ---

    def _act(self, method, bucket, action, value=None):
        body = json.dumps({"action": action, "name": "", "value": value}).encode()
        return self._call(method, f"/v1/buckets/{bucket}?provider=ais", {"Content-Type": "application/json"}, body)

    @staticmethod
    def _path(bucket, name):
        return f"/v1/objects/{bucket}/{urllib.parse.quote(name, errors='surrogateescape')}?provider=ais"

    def _begin(self, kind, bucket, name):
        return Op(self.log.name, kind, bucket, name, now_ns(), 0)

    def _end(self, op, answer):
        op.ret = now_ns()
        if answer:
            op.status = answer[0]
            if op.op != "list":
                op.etag = answer[1].get("etag", "") if 200 <= answer[0] < 300 else ""
            op.stale = "tarn-stale" in answer[1]
        return self.log.append(op)

    def _call(self, method, path, headers=None, body=None):
        """(status, headers, body), or None when no whole answer came."""
        self._turn += 1
        base = self.endpoints[self._turn % len(self.endpoints)]
        address, target = (base.hostname, base.port), path
        for _ in range(1 + MOST_HOPS):
            fields = dict(headers or {})
            fields["Host"] = f"{address[0]}:{address[1]}"
            if body is not None:
                fields["Content-Length"] = str(len(body))
            elif method in ("PUT", "POST"):
                fields["Content-Length"] = "0"
            expect = method == "PUT" and bool(body)
            if expect:
                fields["Expect"] = "100-continue"
            lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
            head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
            try:
                status, answer, data = self._exchange(address, head, body or b"", expect)
            except (OSError, Disconnected, ValueError):
                return None
            if status not in REDIRECTS or "location" not in answer:
                return status, answer, data
            url = urllib.parse.urlsplit(answer["location"])
            if url.hostname:
                address = (url.hostname, url.port or 80)
            target = (url.path or "/") + ("?" + url.query if url.query else "")
        return None

    def _exchange(self, address, head, body, expect):
        connection = self._connections.pop(address, None)
        if connection is not None and self._is_stale(connection):
            connection.close()
            connection = None
        connection = connection or Connection(address, self.timeout)
        try:
            status, headers, data, reusable = connection.exchange(head, body, expect)
        except BaseException:
            connection.close()
            raise
        if reusable and not (expect and status >= 300):  # the body was not sent: the server may still wait for it
            self._connections[address] = connection
        else:
            connection.close()
        return status, headers, data

    @staticmethod
    def _is_stale(connection):
        """The server has closed it meanwhile (it was idle, or restarted). Nothing was sent yet, so another is as good."""
        return bool(select.select([connection.socket], [], [], 0)[0])


class Crowd:
    """Threads that each run `work(client, index)` again and again until `stop`, or until `count` calls in all."""

    def __init__(self, clients, work, count=None):
        self._clients = clients
        self._work = work
        self._left = count
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.failures = []
        self._threads = [threading.Thread(target=self._run, args=(client,), daemon=True) for client in clients]

    def start(self):
        for thread in self._threads:
            thread.start()
        return self

    def _take(self):
        with self._lock:
            if self._left is None:
                return True
            self._left -= 1
            return self._left >= 0

    def _run(self, client):
        try:
            while not self._stop.is_set() and self._take():
                self._work(client)
        except Exception as error:  # noqa: BLE001  a thread must not die unseen
            self.failures.append(repr(error))
        finally:
            client.close()

    def join(self, timeout=120):
        for thread in self._threads:
            thread.join(scaled(timeout))
            assert not thread.is_alive(), "a client never came back"
        assert not self.failures, self.failures

    def stop(self):
        self._stop.set()
        self.join()
