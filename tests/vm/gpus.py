#!/usr/bin/env python3
"""PCI functions with NVIDIA's identity for an unpatched QEMU.

usage: gpus.py --at BUS:ADDRESS:KIND ... -- qemu-system-x86_64 OPTION...

QEMU's own device x-pci-proxy-dev forwards every access to configuration space and BARs over a socket (the protocol of
hw/remote/mpqemu-link.h); this process answers. When the guest reboots, QEMU is to end (-no-reboot) and is started anew:
a machine that was only reset takes minutes in GRUB. KIND: gpu (10de:2230, class 0300) or audio (10de:1aef, class 0403). There
is no DMA and no interrupt; the first registers of BAR 0 say GA102, others read 0 or what was last written.
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

SYNC_MEMORY, REPLY, CONFIG_WRITE, CONFIG_READ, BAR_WRITE, BAR_READ, SET_IRQ, RESET = range(8)
MIB = 1 << 20
KINDS = {  # vendor, device, class and interface, revision, subsystem vendor and device, size of each BAR
    "gpu": (0x10DE, 0x2230, 0x030000, 0xA1, 0x10DE, 0x1459, {0: 16 * MIB, 1: 64 * MIB, 3: 32 * MIB}),
    "audio": (0x10DE, 0x1AEF, 0x040300, 0xA1, 0x10DE, 0x1459, {0: 16 << 10}),
}
REGISTERS = {"gpu": {0x000000: 0xB72000A1, 0x000A00: 0x172A1000}, "audio": {}}  # PMC_BOOT_0, PMC_BOOT_42
GLOBAL_CONTROL = 8  # of the sound function: the one register its driver waits for


class Function:
    """Configuration space and registers of one PCI function."""

    def __init__(self, kind):
        self.kind = kind
        vendor, device, class_code, revision, sub_vendor, sub_device, self.bars = KINDS[kind]
        self.config, self.writable = bytearray(256), bytearray(256)
        struct.pack_into("<HHHHI", self.config, 0, vendor, device, 0, 0x10, class_code << 8 | revision)
        struct.pack_into("<HH", self.config, 0x2C, sub_vendor, sub_device)
        self.config[0x0E], self.config[0x34], self.config[0x3D] = 0x80, 0x60, 1  # multifunction, capabilities, INTA
        struct.pack_into("<H", self.writable, 4, 0x0547)
        self.writable[0x0C] = self.writable[0x3C] = 0xFF
        for number, size in self.bars.items():
            struct.pack_into("<I", self.writable, 0x10 + 4 * number, ~(size - 1) & 0xFFFFFFFF)
        self._add_capabilities()
        self.pristine = bytes(self.config)
        self.registers = dict(REGISTERS[kind])

    def _add_capabilities(self):
        struct.pack_into("<BBHI", self.config, 0x60, 1, 0x68, 0x0003, 0x00000008)  # power management, no soft reset
        struct.pack_into("<H", self.writable, 0x64, 3)
        struct.pack_into("<BBH", self.config, 0x68, 5, 0x78, 0x0080)  # MSI with 64 bits
        struct.pack_into("<H", self.writable, 0x6A, 0x0071)
        struct.pack_into("<IIH", self.writable, 0x6C, 0xFFFFFFFC, 0xFFFFFFFF, 0xFFFF)
        # PCI Express endpoint
        struct.pack_into("<BBHIHHIHH", self.config, 0x78, 0x10, 0, 0x0002, 0x00008FE1, 0x2910, 0, 0x00453D04, 0, 0x1101)
        struct.pack_into("<H", self.writable, 0x80, 0x7FFF)
        struct.pack_into("<H", self.writable, 0x88, 0x01FB)

    def read_config(self, at, length):
        return int.from_bytes(self.config[at:at + length].ljust(length, b"\xff"), "little")

    def write_config(self, at, value, length):
        for i, byte in enumerate(value.to_bytes(8, "little")[:length]):
            if at + i < len(self.config):
                mask = self.writable[at + i]
                self.config[at + i] = (self.config[at + i] & ~mask) | (byte & mask)

    def _register(self, address):
        """Which register a guest address is: the offset in BAR 0, or (BAR, offset)."""
        for number, size in self.bars.items():
            base = struct.unpack_from("<I", self.config, 0x10 + 4 * number)[0] & ~0xF
            if base <= address < base + size:
                return address - base if number == 0 else (number, address - base)
        return ("nowhere", address)

    def read_bar(self, address):
        return self.registers.get(self._register(address), 0)

    def write_bar(self, address, value, length):
        register = self._register(address)
        fixed = register in REGISTERS[self.kind]
        if (self.kind == "gpu" and not fixed) or register == GLOBAL_CONTROL:
            self.registers[register] = value & (2 ** (8 * length) - 1)

    def reset(self):
        self.config[:] = self.pristine
        self.registers = dict(REGISTERS[self.kind])


def receive(sock, length):
    """Exactly so many bytes. Files that come along (memory, interrupts) are not used."""
    data = b""
    while len(data) < length:
        part, files, _, _ = socket.recv_fds(sock, length - len(data), 8)
        for one in files:
            os.close(one)
        if not part:
            raise EOFError
        data += part
    return data


def serve(sock, function):
    """Answers until QEMU closes its end."""
    try:
        while True:
            command, size = struct.unpack("<i4xQ", receive(sock, 16))
            data = receive(sock, size) if size else b""
            result = 0
            if command in (SYNC_MEMORY, SET_IRQ):
                continue
            if command in (CONFIG_READ, CONFIG_WRITE):
                at, value, length = struct.unpack("<IIi", data)
                if command == CONFIG_READ:
                    result = function.read_config(at, length)
                else:
                    function.write_config(at, value, length)
            elif command in (BAR_READ, BAR_WRITE):
                address, value, length, _ = struct.unpack("<QQI?3x", data)
                if command == BAR_READ:
                    result = function.read_bar(address)
                else:
                    function.write_bar(address, value, length)
            elif command == RESET:
                function.reset()
            sock.sendall(struct.pack("<i4xQQ", REPLY, 8, result))
    except (EOFError, OSError):
        return


def start(words, places):
    """QEMU with a function at each place; returns the process."""
    command, ends = list(words), []
    for place in places:
        bus, address, kind = place.split(":")
        mine, theirs = socket.socketpair()
        os.set_inheritable(theirs.fileno(), True)
        ends.append(theirs)
        threading.Thread(target=serve, args=(mine, Function(kind)), daemon=True).start()
        command += ["-device", f"x-pci-proxy-dev,bus={bus},addr={address},multifunction=on,fd={theirs.fileno()}"]
    machine = subprocess.Popen(command, close_fds=False)
    for end in ends:
        end.close()
    return machine


def main():
    words = sys.argv[1:]
    split = words.index("--")
    if set(words[:split:2]) != {"--at"}:
        sys.exit(__doc__)
    machine = None

    def stop(*_):
        if machine is not None:
            machine.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    while True:
        machine = start(words[split + 1:], words[1:split:2])
        status = machine.wait()
        if status != 0:
            sys.exit(status)


main()
