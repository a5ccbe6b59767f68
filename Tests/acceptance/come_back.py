"""More waits for a gateway's streams than its link takes: see come_back.sh."""
import asyncio
import base64
import random
import signal
import subprocess

from system.checks import wait
from system.node import making, start
from system.openloop import Caller, Stream, message, register, subscribe, until

# FCM's payload has 4,096 bytes at most, and 100 messages wait for a device.
DEVICES, MESSAGES, SIZE = 260, 100, 3900
# The bound of a link's frames is 64 MiB (PeerTiming.backlog).
LINK_BYTES = 64 << 20
assert DEVICES * MESSAGES * SIZE > 1.4 * LINK_BYTES


def slow_down(port):
    """Lets some 10 MB a second through to the port. The kernel may have no qdisc that shapes."""
    rule = ["iptables", "-w", "-A", "INPUT", "-p", "tcp", "--dport", str(port)]
    subprocess.run([*rule, "-m", "limit", "--limit", "400/second", "--limit-burst", "20", "-j", "ACCEPT"],
                   check=True)
    subprocess.run([*rule, "-j", "DROP"], check=True)


async def run(gateway, shard):
    gateway.options += ["--roles", "gateway", "--loops", "1"]
    shard.options += ["--roles", "shard", "--loops", "1"]
    await asyncio.to_thread(start, (gateway, shard))
    await asyncio.to_thread(
        wait, lambda: set(gateway.owners()) == {shard.name}, "the shard to own all partitions")
    devices = await register(gateway.host, gateway.port, DEVICES)
    await subscribe(gateway.host, gateway.port, "all", devices)
    sender = Caller(gateway.host, gateway.port)
    for number in range(MESSAGES):
        body = message(number, {"topic": "all"})
        # Nodes compress their frames.
        body["message"]["data"]["x"] = base64.b64encode(random.randbytes(SIZE)).decode()[:SIZE]
        await sender.wanted("POST", "/v1/projects/demo/messages:send", body)
    print(f"{DEVICES * MESSAGES * SIZE >> 20} MiB wait for {DEVICES} devices")

    streams = [Stream(one) for one in devices]
    for stream in streams:
        stream.open(gateway.host, gateway.port)
    wanted = set(range(MESSAGES))
    await until(lambda: all(wanted <= set(one.now) for one in streams), "each message to come to each device")

    slow_down(gateway.peer)
    # Nobody has acknowledged anything. The gateway attaches all streams together at the shard's next process,
    # for which everything still waits.
    shard.process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(shard.process.wait)
    await asyncio.to_thread(start, (shard,))
    last = MESSAGES
    # The link that is slow also brings the tokens of the project's quota.
    status = 503
    while status == 503:
        status, _ = await sender.call(
            "POST", "/v1/projects/demo/messages:send", message(last, {"topic": "all"}))
    assert status == 200, f"the last send was answered {status}"
    await until(lambda: all(last in one.now for one in streams), "a last message to come to each device")
    sender.close()
    for stream in streams:
        stream.check_once()
        assert stream.now == sorted(stream.now), "messages came in another order"
        assert not stream.dropped, "a device was told that messages were dropped"
    dropped = subprocess.run(["iptables", "-w", "-L", "INPUT", "-v", "-x", "-n"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.splitlines()[-1].split()[0]
    assert int(dropped) > 0, "the link was not slow"
    connections = sum(len(one.heard) for one in streams)
    assert connections == DEVICES, f"{DEVICES} streams were opened {connections} times"
    for node in (gateway, shard):
        broken = [line for line in node.log_text().splitlines() if "does not read its frames" in line]
        assert not broken, f"{node.name} broke a link: {broken[0]}"


def main():
    with making() as made:
        _, nodes = made.cluster("gateway", "shard")
        asyncio.run(run(*nodes))
        print("come_back: ok")


if __name__ == "__main__":
    main()
