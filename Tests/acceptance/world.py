"""A server's disk and clock, as a test wants them: see world.c, which is compiled here and preloaded."""
import os
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class World:
    """What one server sees. It lies in `folder`, which that server has to be able to read."""

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
        """Each sync that begins from now on takes so much longer."""
        self.sync = seconds
        self.write()

    def wall_is_ahead(self, seconds):
        """The clock on the wall is ahead by so much; behind where it is negative."""
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
    """Whether the object is in the process, whatever has started it."""
    with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
        return "world.so" in maps.read()
