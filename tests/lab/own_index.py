"""A package index as a company runs it: TLS under a certificate authority of its own, behind a proxy that alone finds it."""
import contextlib
import functools
import http.server
import pathlib
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading

NAME = "index.lab"


def make_certificates(folder):
    """ca.pem, and server.pem with its key, for NAME."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-keyout", "ca.key",
            "-out", "ca.pem", "-subj", "/CN=Lab CA", "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "server.key", "-out", "server.csr",
            "-subj", f"/CN={NAME}")
    (folder / "san").write_text(f"subjectAltName=DNS:{NAME}\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2", "-out", "server.pem",
            "-extfile", "san")


def write_pages(folder, wheels):
    """The simple repository API (PEP 503) over these files."""
    for wheel in map(pathlib.Path, wheels):
        project = folder / "simple" / wheel.name.split("-")[0].replace("_", "-").lower()
        project.mkdir(parents=True)
        shutil.copy(wheel, project)
        (project / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel.name}">{wheel.name}</a>')


class Proxy(socketserver.BaseRequestHandler):
    """CONNECT to NAME only; each one is noted in the server's `asked`."""

    def handle(self):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.request.recv(4096)
            if not piece:
                return
            head += piece
        words = head.split()
        self.server.asked.append(words[1].decode())
        if words[0] != b"CONNECT" or not words[1].startswith(NAME.encode() + b":"):
            self.request.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", int(words[1].split(b":")[1]))) as index:
            self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self.carry, args=(index, self.request))
            back.start()
            self.carry(self.request, index)
            back.join()

    @staticmethod
    def carry(source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def own_index(folder, wheels, address):
    """Serves `wheels`; yields (URL of the index, URL of the proxy at `address`, path of the CA, what the proxy was asked)."""
    folder.mkdir()
    make_certificates(folder)
    pages = folder / "pages"
    write_pages(pages, wheels)
    index = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=pages))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    index.socket = context.wrap_socket(index.socket, server_side=True)
    proxy = socketserver.ThreadingTCPServer((address, 0), Proxy)
    proxy.daemon_threads = True
    proxy.asked = []
    for server in (index, proxy):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield (f"https://{NAME}:{index.server_address[1]}/simple", f"http://{address}:{proxy.server_address[1]}",
               folder / "ca.pem", proxy.asked)
    finally:
        for server in (proxy, index):
            server.shutdown()
            server.server_close()
