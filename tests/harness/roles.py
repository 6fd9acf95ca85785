"""Services that hand programs the temporary credentials of a role: an issuer of tokens (OpenID Connect), and a service for
containers."""

import base64
import contextlib
import http.server
import json
import re
import subprocess
import threading
import time

from harness.etcd import openssl


def _base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextlib.contextmanager
def _serving(answer):
    """An HTTP server whose GETs are answered by a function of (path, headers): (status, object for JSON). Its URL."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            status, told = answer(self.path, self.headers)
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


class TokenIssuer:
    """Issues tokens as Kubernetes does for service accounts: JWTs (RFC 7519, RS256), whose keys are at its `config_url`."""

    def __init__(self, directory):
        self.key = directory / "issuer.key"
        openssl(directory, "genrsa", "-out", self.key, "2048")

    def __enter__(self):
        with contextlib.ExitStack() as made:
            self.url = made.enter_context(_serving(self._answer))
            self.config_url = self.url + "/.well-known/openid-configuration"
            self._end = made.pop_all()
        return self

    def __exit__(self, *_):
        self._end.close()

    def _answer(self, path, _):
        if path == "/keys":
            said = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True, capture_output=True).stdout
            modulus = bytes.fromhex(re.fullmatch(rb"Modulus=([0-9A-F]+)\n", said)[1].decode())
            return 200, {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": _base64(modulus), "e": "AQAB"}]}
        return 200, {"issuer": self.url, "jwks_uri": self.url + "/keys", "id_token_signing_alg_values_supported": ["RS256"],
                     "response_types_supported": ["id_token"], "subject_types_supported": ["public"]}

    def token(self, audience, **claims):
        """A token for an hour."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": "system:serviceaccount:default:tarn", "aud": audience, "azp": audience, "iat": now,
                  "exp": now + 3600} | claims
        signed = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1", "typ": "JWT"}, claims))
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=signed.encode(), check=True,
                                   capture_output=True).stdout
        return f"{signed}.{_base64(signature)}"


@contextlib.contextmanager
def container_service(keys, tokens, seconds):
    """The service that ECS and EKS have on each machine. It sends `keys()`, (access key, secret key), for so many seconds to
    callers that show one of `tokens`. Its URL, and {token: times at which it was shown}."""
    asked = {token: [] for token in tokens}

    def answer(path, headers):
        if path != "/v1/credentials" or headers["Authorization"] not in asked:
            return 403, {"code": 403, "message": "the token is not accepted"}
        asked[headers["Authorization"]].append(time.monotonic())
        access_key, secret_key = keys()
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        return 200, {"AccessKeyId": access_key, "SecretAccessKey": secret_key, "Token": "", "Expiration": ends}

    with _serving(answer) as url:
        yield url + "/v1/credentials", asked
