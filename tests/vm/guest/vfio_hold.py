#!/usr/bin/env python3
"""vfio_hold.py GROUP ADDRESS MODE: stands in for a virtual machine that uses a passed-through GPU.

MODE device: keeps the group and the device open, as QEMU does, and does not answer when the kernel asks for it back.
     mapped: keeps a mapping of the device's memory and no open file at all, so that nobody sees who has it.
Prints "holding" when it does, and ends at SIGTERM."""
import fcntl
import mmap
import os
import signal
import struct
import sys

BASE = 0x3B64  # VFIO_TYPE and VFIO_BASE of linux/vfio.h
TYPE1 = 3


def open_device(group, address):
    """The files of group, container and device."""
    group_file = os.open(f"/dev/vfio/{group}", os.O_RDWR)
    container = os.open("/dev/vfio/vfio", os.O_RDWR)
    fcntl.ioctl(group_file, BASE + 4, struct.pack("i", container))  # VFIO_GROUP_SET_CONTAINER
    fcntl.ioctl(container, BASE + 2, TYPE1)  # VFIO_SET_IOMMU
    device = fcntl.ioctl(group_file, BASE + 6, bytearray(address.encode() + b"\0"))  # VFIO_GROUP_GET_DEVICE_FD
    return group_file, container, device


def map_first_bar(device):
    """A mapping of BAR 0."""
    info = bytearray(32)
    struct.pack_into("II", info, 0, 32, 0)
    fcntl.ioctl(device, BASE + 8, info, True)  # VFIO_DEVICE_GET_REGION_INFO
    size, offset = struct.unpack_from("QQ", info, 16)
    return mmap.mmap(device, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)


def main():
    group, address, mode = sys.argv[1:4]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    files = open_device(group, address)
    mapping = map_first_bar(files[2]) if mode == "mapped" else None
    if mapping is not None:
        for one in files:
            os.close(one)
        # Python's mmap keeps a duplicate of the file; it shows among the open files as anon_inode:[vfio-device] only.
    print("holding", flush=True)
    while True:
        signal.pause()


main()
