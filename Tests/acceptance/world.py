"""Lets a test slow down a server's syncs and shift its wall clock: compiles world.c and preloads it into the server."""
import asyncio
import os
import shutil
import signal
import struct
import subprocess
import sys

from openloop import Caller
from ports import free_port

HERE = os.path.dirname(os.path.abspath(__file__))
UNPRIVILEGED = os.path.join(HERE, "../../tools/unprivileged")


class World:
    """The sync delay and the clock shift of one server, in a file in `folder`. The server must be able to read `folder`."""

    def __init__(self, folder, name="world"):
        self.path, library = os.path.join(folder, name), os.path.join(folder, "world.so")
        if not os.path.exists(library):
            build(library)
        self.sync, self.wall = 0.0, 0.0
        self.file = open(self.path, "wb", buffering=0)
        os.chmod(self.path, 0o644)
        self.write()
        self.environment = {"LD_PRELOAD": library, "WORLD": self.path}

    def write(self):
        os.pwrite(self.file.fileno(), struct.pack("qq", int(self.sync * 1e6), int(self.wall * 1e3)), 0)

    def syncs_take(self, seconds):
        """Each sync that begins from now on takes `seconds` longer."""
        self.sync = seconds
        self.write()

    def wall_is_ahead(self, seconds):
        """The wall clock is ahead by `seconds`, or behind where `seconds` is negative."""
        self.wall = seconds
        self.write()


def build(library):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        print("skipped: there is no C compiler: tools/install-packages test")
        sys.exit(77)
    subprocess.run([compiler, "-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library,
                    os.path.join(HERE, "world.c")], check=True)
    os.chmod(library, 0o755)


def is_preloaded(process):
    """Whether world.so is loaded in the process, also where a wrapper has started it."""
    with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
        return "world.so" in maps.read()


class Server:
    """A development server with a `World` of its own, in the existing folder `work`."""

    def __init__(self, binary, work, *options):
        self.binary, self.work, self.options, self.world = binary, work, options, World(work)
        self.host, self.port, self.process = "127.0.0.1", free_port(), None

    async def start(self):
        self.process = subprocess.Popen(
            [UNPRIVILEGED, self.binary, "server", "--dev", "--data", f"{self.work}/data", "--listen",
             f"{self.host}:{self.port}", *self.options],
            stdin=subprocess.DEVNULL, stderr=open(f"{self.work}/log", "ab"), env={**os.environ, **self.world.environment})
        while not await self.ready_word():
            assert self.process.poll() is None, "the server ended while it started"
            await asyncio.sleep(0.05)
        assert is_preloaded(self.process), "world.so is not in the server"

    async def ready_word(self):
        """Status and text of /readyz; None while nothing listens on the port."""
        try:
            return await self.call("GET", "/readyz")
        except OSError:
            return None

    async def call(self, *words):
        caller = Caller(self.host, self.port)
        try:
            status, body = await caller.call(*words)
            return status, body.decode().strip()
        finally:
            caller.close()

    async def wait_ready(self, status, limit=60):
        """Waits until /readyz answers with `status`, at most `limit` s, and returns its text."""
        said = None

        async def look():
            nonlocal said
            while True:
                said = await self.ready_word()
                if said and said[0] == status:
                    return said[1]
                await asyncio.sleep(0.1)
        try:
            return await asyncio.wait_for(look(), limit)
        except asyncio.TimeoutError:
            raise SystemExit(f"FAIL: /readyz does not answer {status}, but {said}") from None

    async def metrics(self):
        status, text = await self.call("GET", "/metrics")
        assert status == 200, status
        lines = [line.split(" ") for line in text.split("\n") if line[:1] not in ("#", "")]
        return {name: float(value) for name, value in lines}

    async def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(self.process.wait, 60)
        assert code == 0, f"after SIGTERM the server ended with {code}"

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
