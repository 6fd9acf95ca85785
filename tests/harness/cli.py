"""`tarn` as tests call it, and a server that answers it what a test writes."""

import http.server
import os
import subprocess
import threading
from pathlib import Path

from harness.cluster import PROGRAMS
from harness.waiting import scaled


XXH64_OF_HELLO = "26c7827d889f6da3"  # of b"hello"
XXH64_OF_NOTHING = "ef46db3751d8e999"
# What a target says of an object that is b"hello".
HELLO = {"ETag": f'"{XXH64_OF_HELLO}-5"', "Ais-Checksum-Type": "xxhash2", "Ais-Checksum-Value": XXH64_OF_HELLO}


class Cli:
    """Runs `tarn` against one endpoint."""

    def __init__(self, endpoint, programs=PROGRAMS):
        self.program = Path(programs) / "tarn"
        self.environment = {key: value for key, value in os.environ.items() if not key.endswith("_ENDPOINT")}
        self.environment["TARN_ENDPOINT"] = endpoint

    def start(self, *words, **options):
        return subprocess.Popen([self.program, *map(str, words)], env=self.environment, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def __call__(self, *words, input=b"", cwd=None):
        process = self.start(*words, cwd=cwd)
        output, errors = process.communicate(input, timeout=scaled(90))
        result = subprocess.CompletedProcess(words, process.returncode, output, errors.decode())
        lines = [line for line in result.stderr.splitlines() if line]
        assert all(line.startswith("tarn") for line in lines), result.stderr
        assert result.returncode == 0 or lines, f"{words} failed ({result.returncode}) without a word"
        return result

    def ok(self, *words, **options):
        result = self(*words, **options)
        assert result.returncode == 0, result
        return result.stdout

    def refuses(self, code, *words, says="", **options):
        result = self(*words, **options)
        assert result.returncode == code, result
        assert says in result.stderr
        assert len(result.stderr.splitlines()) == 1, result.stderr
        return result


class Liar:
    """A server whose answers the test writes: a list of functions, one for each request."""

    def __init__(self, *answers):
        self.requests = []
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                liar.requests.append((self.command, self.path, dict(self.headers)))
                answers[min(len(liar.requests), len(answers)) - 1](self)
                self.close_connection = True

            do_GET = do_HEAD = do_PUT = do_DELETE = serve

            def handle_expect_100(self):  # the functions decide
                return True

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        self.cli = Cli(f"http://127.0.0.1:{self.server.server_port}")
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def answer(status, headers=None, body=b"", length=None):
    def serve(request):
        request.send_response(status)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body) if length is None else length))
        request.end_headers()
        request.wfile.write(body)
    return serve


def taking(body_bytes, then):
    """Says 100 Continue, reads that much, answers."""
    def serve(request):
        request.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.rfile.read(body_bytes)
        then(request)
    return serve
