"""Records the gossip that goes to one node, and sends it again: unchanged, late, cut short, lengthened, and
with flipped bits.

    replay.py INTERFACE SECONDS SEED

INTERFACE is the node's port at the switch: a frame that goes into this port arrives at the node. Prints the
counts at the end.
"""
import random
import socket
import sys
import time

OUTGOING = 4
ETHERNET, IP, UDP = 14, 20, 8


def without_checksum(frame):
    """A frame that was recorded on a virtual wire has no checksum yet; a UDP checksum of 0 means none."""
    place = ETHERNET + IP + 6
    return frame[:place] + b"\0\0" + frame[place + 2:]


def resized(frame, payload):
    """The frame with another payload; the lengths and the checksum of the IP header match it, and UDP has no
    checksum."""
    head = bytearray(frame[:ETHERNET + IP + UDP])
    head[ETHERNET + 2:ETHERNET + 4] = (IP + UDP + len(payload)).to_bytes(2, "big")
    head[ETHERNET + 10:ETHERNET + 12] = b"\0\0"
    words = sum(int.from_bytes(head[place:place + 2], "big") for place in range(ETHERNET, ETHERNET + IP, 2))
    words = (words & 0xFFFF) + (words >> 16)
    head[ETHERNET + 10:ETHERNET + 12] = (~(words + (words >> 16)) & 0xFFFF).to_bytes(2, "big")
    head[ETHERNET + IP + 4:ETHERNET + IP + 6] = (UDP + len(payload)).to_bytes(2, "big")
    return without_checksum(bytes(head) + payload)


def main():
    name, seconds, rng = sys.argv[1], float(sys.argv[2]), random.Random(int(sys.argv[3]))
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.bind((name, 0))
    link.settimeout(0.1)
    caught, counts, end = [], {"again": 0, "cut": 0, "turned": 0, "long": 0}, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            frame, (_, _, kind, _, _) = link.recvfrom(65536)
        except TimeoutError:
            frame, kind = b"", None
        if kind == OUTGOING and frame[12:14] == b"\x08\0" and frame[ETHERNET
                                                                    + 9] == 17 and len(caught) < 400 \
                and not any(frame == one for one in caught[-5:]):
            caught.append(frame)
        if len(caught) < 5:
            continue
        frame = rng.choice(caught)
        payload = frame[ETHERNET + IP + UDP:]
        what = rng.choice(list(counts))
        if what == "cut":
            payload = payload[:rng.randrange(len(payload) + 1)]
        elif what == "long":
            payload = payload + rng.randbytes(min(1400 - len(payload), 200) if len(payload) < 1400 else 1)
        elif what == "turned" and payload:
            place = rng.randrange(len(payload))
            payload = payload[:place] + bytes([payload[place] ^ 1 << rng.randrange(8)]) + payload[place + 1:]
        link.send(resized(frame, payload))
        counts[what] += 1
    print(f"{len(caught)} datagrams caught; sent {counts}")


main()
