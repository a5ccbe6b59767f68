"""The beginning and the end of a table of HTTP behaviours: a development server, in cleartext and over
TLS."""
from system.process import SecureServer


def begin(work):
    """Starts a server in the folder `work`, and waits until it is ready."""
    server = SecureServer(work)
    server.start()
    server.wait_ready()
    return server


def ending(server, wrong):
    """Kills the server, prints `wrong`, and returns the exit code: 0 where no row was wrong and the server
    still ran."""
    if not server.is_running():
        wrong.append("FAIL the server did not live through it")
    server.kill()
    print(*wrong, sep="\n", end="")
    return 1 if wrong else 0
