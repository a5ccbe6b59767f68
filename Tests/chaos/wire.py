"""A wire between two interfaces that delays, reorders and doubles the frames on it.

    wire.py ONE OTHER SEED LEAST_MS MOST_MS DOUBLE

Reads whole frames with packet sockets. Each frame waits for a random time of its own, so that later frames
overtake earlier ones. Ends at the end of its standard input, and prints the counts.
"""
import heapq
import random
import select
import socket
import sys
import time

OUTGOING = 4  # PACKET_OUTGOING: a frame that this wire itself has sent


def main():
    names, rng = sys.argv[1:3], random.Random(int(sys.argv[3]))
    least, most, double = (float(word) for word in sys.argv[4:7])
    ends = []
    for name in names:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        end.bind((name, 0))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        ends.append(end)
    waiting, count, doubled, overtaken, lost = [], 0, 0, 0, 0
    latest = [0.0, 0.0]
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(waiting)
            try:
                ends[to].send(frame)
            except OSError:
                lost += 1
        limit = max(0, waiting[0][0] - now) if waiting else 0.5
        ready, _, _ = select.select([*ends, sys.stdin], [], [], limit)
        if sys.stdin in ready:
            break
        for number, end in enumerate(ends):
            if end not in ready:
                continue
            frame, (_, _, kind, _, _) = end.recvfrom(65536)
            if kind == OUTGOING:
                continue
            for copy in range(2 if rng.random() < double else 1):
                at = time.monotonic() + rng.uniform(least, most) / 1000
                count, doubled = count + 1, doubled + copy
                overtaken += at < latest[number]
                latest[number] = max(latest[number], at)
                heapq.heappush(waiting, (at, count, 1 - number, frame))
    print(f"{count} frames, {doubled} doubled, {overtaken} overtaken, {lost} not sent")


main()
