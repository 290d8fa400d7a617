"""A link with a real round-trip time: two network namespaces joined by a program that holds every packet back.

netem would do the same in the kernel, but not every kernel has it. Packets are whole IP packets between two tun
devices, so the TCP handshake, slow start and delayed acknowledgements are all there.
"""

import fcntl
import heapq
import os
import select
import struct
import subprocess
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def open_tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


class DelayLink:
    """A context manager. `near` and `far` are command prefixes that run something on either side."""

    NEAR, FAR = "10.213.77.1", "10.213.77.2"

    def __init__(self, round_trip):
        self.half = round_trip / 2
        tag = f"mwb{os.getpid() % 100000}"
        self.spaces = (tag + "n", tag + "f")
        self.near = ("nsenter", f"--net=/run/netns/{self.spaces[0]}")
        self.far = ("nsenter", f"--net=/run/netns/{self.spaces[1]}")
        self.fds = []
        self.stop = threading.Event()

    def __enter__(self):
        try:
            for space, own, other in ((self.spaces[0], self.NEAR, self.FAR), (self.spaces[1], self.FAR, self.NEAR)):
                ip("netns", "add", space)
                self.fds.append(open_tun(space))
                ip("link", "set", space, "netns", space)
                ip("-n", space, "link", "set", "lo", "up")
                ip("-n", space, "addr", "add", own, "peer", other, "dev", space)
                ip("-n", space, "link", "set", space, "up")
        except BaseException:
            self.__exit__()
            raise
        self.thread = threading.Thread(target=self._carry, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        if hasattr(self, "thread"):
            self.thread.join()
        for fd in self.fds:
            os.close(fd)
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)

    def _carry(self):
        waiting, number = [], 0
        other = {self.fds[0]: self.fds[1], self.fds[1]: self.fds[0]}
        while not self.stop.is_set():
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, to, packet = heapq.heappop(waiting)
                try:
                    os.write(to, packet)
                except BlockingIOError:
                    pass  # a full queue drops packets, as a router does
            pause = min(max(waiting[0][0] - time.monotonic(), 0), 0.2) if waiting else 0.2
            for fd in select.select(self.fds, [], [], pause)[0]:
                try:
                    while True:
                        packet = os.read(fd, 65536)
                        number += 1
                        heapq.heappush(waiting, (time.monotonic() + self.half, number, other[fd], packet))
                except BlockingIOError:
                    pass
