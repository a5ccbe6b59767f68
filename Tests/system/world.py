"""Lets a test slow down a server's syncs and shift its wall clock: compiles world.c and preloads it into the
server."""
import asyncio
import os
import shutil
import struct
import subprocess
import sys

from system.process import DevelopmentServer

HERE = os.path.dirname(os.path.abspath(__file__))


class World:
    """The sync delay and the clock shift of one server, in a file in `folder`. The server must be able to
    read `folder`."""

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
        """Writes both figures into the file that the preloaded library reads."""
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
    """Compiles world.c as `library`. Ends the script with 77 where there is no C compiler."""
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


class WorldServer:
    """A development server with a `World` of its own, for a script on an event loop. Its folder must
    exist."""

    def __init__(self, folder, *options):
        self.world, self.server = World(folder), DevelopmentServer(folder, *options)
        self.server.environment = self.world.environment
        self.host, self.port = self.server.host, self.server.port

    async def start(self):
        """Starts the server, and waits until it is ready."""
        self.server.start()
        await asyncio.to_thread(self.server.wait_ready)
        assert is_preloaded(self.server.process), "world.so is not in the server"

    async def ready_word(self):
        """Status and text of /readyz; (0, "") while the server does not answer."""
        status, text = await asyncio.to_thread(self.server.asked, "/readyz")
        return status, text.strip()

    async def metrics(self):
        """`metrics` of the server."""
        return await asyncio.to_thread(self.server.metrics)

    async def end(self):
        """Ends the server with SIGTERM. It must end with 0."""
        code = await asyncio.to_thread(self.server.end)
        assert code == 0, f"after SIGTERM the server ended with {code}"

    def kill(self):
        """Kills the server where it runs."""
        self.server.kill()
