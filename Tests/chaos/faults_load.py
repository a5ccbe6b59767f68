"""Faults of load: herds of streams, and quotas."""
import asyncio
import threading
import time

import quota_window
from client import Client
from registry import fault
from setup import Project
from topology import API_PORT
from workload import Device

from system import placement

HERD = 1200
# The bucket is empty, and admissions follow the rate, for this long before the kill.
AT_THE_RATE_SECONDS = 3


@fault("51", f"a herd: a gateway with {HERD} device streams is killed, and all of them come back at once",
       seconds=12, broken=("gateway-2",), limit=10)
def herd(run):
    devices = herd_devices(run)
    crowd = Crowd(run, devices)
    thread = threading.Thread(target=crowd.run, daemon=True)
    thread.start()
    opened = run.until(lambda: crowd.open >= len(devices), 40)
    run.note(devices=len(devices), first_open_after=opened and round(opened, 1))
    crowd.gateways = [run.node("gateway-1"), run.node("gateway-3")]
    victim = run.node("gateway-2")
    victim.kill()
    began = time.monotonic()
    run.until(lambda: crowd.open < len(devices) / 2, 5)
    back = run.until(lambda: crowd.open >= len(devices), 30)
    run.note(all_back_after=back and round(time.monotonic() - began, 1), refused=dict(crowd.refused))
    run.demand(back is not None and time.monotonic() - began <= 10.5, "I11",
               "the herd was not back within 10 s")
    victim.start()
    crowd.over.set()
    thread.join(timeout=20)


def herd_devices(run):
    """Registers HERD devices with 8 threads, as fast as the quota lets them."""
    found, lock = [], threading.Lock()

    def register(number):
        client = run.workload.client(f"herd-{number}")
        project = run.workload.projects[number % len(run.workload.projects)]
        while True:
            with lock:
                if len(found) >= HERD:
                    return
            status, answer = client.call(client.pick(), "POST", f"/v1/projects/{project.id}/registrations",
                                         {},
                                         {"x-goog-api-key": project.device_key})
            if status == 200:
                with lock:
                    found.append(Device(project, answer))
    threads = [threading.Thread(target=register, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found[:HERD]


class Crowd:
    """Many device streams on one event loop. A device that loses its stream connects again at once, to any of
    `gateways`."""

    def __init__(self, run, devices):
        self.devices, self.gateways = devices, [run.node("gateway-2")]
        self.random, self.open, self.refused, self.over = run.workload.client(
            "herd").random, 0, {}, threading.Event()

    def run(self):
        asyncio.run(self.main())

    async def main(self):
        tasks = [asyncio.create_task(self.listen(device)) for device in self.devices]
        while not self.over.is_set():
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def listen(self, device):
        while True:
            writer = None
            try:
                gateway = self.random.choice(self.gateways)
                reader, writer = await asyncio.open_connection(gateway.address, API_PORT)
                writer.write((f"GET /v1/projects/{device.project.id}/registrations/{device.fid}:listen"
                              " HTTP/1.1\r\n"
                              f"host: x\r\nauthorization: Bearer {device.credential}\r\n\r\n").encode())
                head = await reader.readuntil(b"\r\n\r\n")
                if b" 200 " in head.split(b"\r\n")[0]:
                    self.open += 1
                    try:
                        while await reader.read(4096):
                            pass
                    finally:
                        self.open -= 1
                else:
                    status = head.split(b" ")[1].decode()
                    self.refused[status] = self.refused.get(status, 0) + 1
                    await asyncio.sleep(0.5)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.1)
            finally:
                if writer:
                    writer.close()


@fault("53",
       "the owner of a project's buckets is killed at full load: 100 sends a second, asked for by many more",
       seconds=12, rates={"swap": 0.1, "condition": 0.1, "read": 0.1})
def quota_owner(run):
    rate, burst = 100, 6000
    project = Project(f"quota-{run.seed}-{int(time.time())}", run.cluster,
                      ["--sends-per-minute", str(rate * 60)])
    project.wait_known(run.cluster)
    load = QuotaLoad(run, project)
    load.start(6)
    drained = run.until(lambda: load.refused > 20, 50)
    run.note(bucket_empty_after=drained and round(drained, 1))
    time.sleep(AT_THE_RATE_SECONDS)
    killed = time.monotonic()
    owner = home_owner(run, project)
    run.node(owner).kill()
    run.sleep()
    run.node(owner).start()
    load.stop()
    over = quota_window.overshoot(load.admitted, rate, burst)
    strict = quota_window.overshoot([one for one in load.admitted if one[0] > load.empty_at], rate, 0)
    longest = quota_window.longest_pause([end for _, end in load.admitted], killed)
    run.note(owner=owner, admitted=len(load.admitted), over_burst_and_rate=round(over, 1),
             over_the_rate_since_the_bucket_was_empty=round(strict, 1), longest_without=round(longest, 2))
    run.demand(over <= 0.05 * rate, "I7", f"{over:.1f} more than burst + rate × time were admitted")


def home_owner(run, project):
    """The node that owns the partition of the project's buckets."""
    partition = placement.home_partition(project.number, 256)
    view = run.cluster.gateways[0].view()
    return next(one["owner"] for one in view["partitions"] if one["partition"] == partition)


class QuotaLoad:
    """Threads that send through all gateways, each as soon as its last send is answered."""

    def __init__(self, run, project):
        self.run, self.project = run, project
        self.admitted, self.refused, self.empty_at = [], 0, None
        self.over, self.threads, self.lock = threading.Event(), [], threading.Lock()

    def start(self, count):
        self.threads = [threading.Thread(target=self.work, args=(number,), daemon=True)
                        for number in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        client = Client(self.run.cluster.gateways, number)
        gateway = self.run.cluster.gateways[number % len(self.run.cluster.gateways)]
        while not self.over.is_set():
            began = time.monotonic()
            status, _ = client.call(gateway, "POST", f"/v1/projects/{self.project.id}/messages:send", {
                "message": {"topic": f"quota-{number}", "android": {"ttl": "0s"}, "data": {"n": "0"}}},
                {"authorization": f"Bearer {self.project.bearer}"})
            with self.lock:
                if status == 200:
                    self.admitted.append((began, time.monotonic()))
                elif status == 429:
                    self.refused += 1
                    self.empty_at = self.empty_at or time.monotonic()
            if status == 429:
                time.sleep(0.01)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(timeout=35)
