"""tls_server.py KIND: a real HTTPS server on loopback, with a certificate that it has openssl make for it.

KIND is trusted (right in everything but its issuer, which is itself), other-name, expired, or h2 (offers HTTP/2 only
and then does not speak it). Prints the port and the path of its certificate, and ends when its input does.
"""

import http.server
import ssl
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

# `openssl req` makes no certificate of the past; `openssl ca` does.
AUTHORITY = """
[ca]
default_ca = here
[here]
database = index.txt
new_certs_dir = .
serial = serial
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = DNS:{name},IP:{address}
"""


def openssl(folder: str, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_certificate(folder: str, kind: str) -> None:
    name, address = ("elsewhere.test", "192.0.2.1") if kind == "other-name" else ("localhost", "127.0.0.1")
    Path(folder, "ca.cnf").write_text(AUTHORITY.format(name=name, address=address))
    Path(folder, "index.txt").write_text("")
    Path(folder, "serial").write_text("01\n")
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "request.pem",
            "-subj", f"/CN={name}")  # fmt: skip
    end = "20200201000000Z" if kind == "expired" else "20990101000000Z"
    openssl(folder, "ca", "-batch", "-notext", "-selfsign", "-config", "ca.cnf", "-keyfile", "key.pem",
            "-in", "request.pem", "-out", "cert.pem", "-startdate", "20200101000000Z", "-enddate", end)  # fmt: skip


class NoModels(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"object": "list", "data": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that refuse the certificate are what this server is for."""


def main() -> None:
    kind = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        make_certificate(folder, kind)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Path(folder, "cert.pem"), Path(folder, "key.pem"))
        if kind == "h2":
            context.set_alpn_protocols(["h2"])
        server = Server(("127.0.0.1", 0), NoModels)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"{server.server_address[1]} {folder}/cert.pem", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
