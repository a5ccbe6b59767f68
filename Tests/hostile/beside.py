"""A well-behaved client in open loop: it sends RATE messages a second over 4 open connections, and does not
wait for the server. Prints a line for each send: the time when it was due, the milliseconds from then to its
answer, and the status; 0 where its connection broke. As a program: beside.py PORT RATE"""
import asyncio
import itertools
import sys
import time

from system.openloop import answer, message, request

CONNECTIONS = 4


class Client:
    def __init__(self, port):
        self.port, self.reader, self.writer, self.waiting = port, None, None, asyncio.Queue()

    async def connect(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    def send(self, due, number):
        body = message(number, {"topic": "beside"}, 100)
        self.writer.write(request("POST", "/v1/projects/beside/messages:send", body))
        self.waiting.put_nowait(due)

    async def read(self):
        while True:
            due = await self.waiting.get()
            try:
                status = (await answer(self.reader))[0]
            except (OSError, asyncio.IncompleteReadError):
                status = 0
            print(f"{due:.6f} {1000 * (time.monotonic() - due):.3f} {status}", flush=True)
            if status == 0:
                while not self.waiting.empty():
                    print(f"{self.waiting.get_nowait():.6f} 0 0", flush=True)
                await self.reconnect()

    async def reconnect(self):
        self.writer.close()
        while True:
            try:
                return await self.connect()
            except OSError:
                await asyncio.sleep(0.1)


async def main(port, rate):
    clients = [Client(port) for _ in range(CONNECTIONS)]
    for one in clients:
        await one.connect()
    readers = [asyncio.create_task(one.read()) for one in clients]
    began = time.monotonic()
    for number in itertools.count():
        due = began + number / rate
        await asyncio.sleep(max(0, due - time.monotonic()))
        clients[number % CONNECTIONS].send(due, number)
        if any(one.done() for one in readers):
            return


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
