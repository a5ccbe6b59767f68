"""A process that is frozen while it changes projects must not block or overwrite changes of others: see
cluster_frozen.sh."""
import http.client
import json
import random
import signal
import threading
import time

from system import admin
from system.checks import check, wait
from system.node import making, start

ROUNDS = 6
SHARED = "shared"


def ask(node, method, path, body=None):
    """Whether the node answered 200, and the body of its answer or the text of the error."""
    try:
        status, said = admin.ask(node.data, method, path, body)
        return status == 200, said
    except (OSError, http.client.HTTPException) as error:
        return False, str(error)


def create(node, project):
    return ask(node, "POST", "/admin/projects", {"id": project})


def projects(node):
    done, said = ask(node, "GET", "/admin/projects")
    return {one["project"]: one["projectNumber"] for one in json.loads(said)["projects"]} if done else {}


def set_limit(node, name, value):
    return ask(node, "PATCH", f"/admin/projects/{SHARED}/quotas", {name: value})


def limits(node):
    done, said = ask(node, "GET", f"/admin/projects/{SHARED}/quotas")
    return json.loads(said)["limits"] if done else {}


class Busy:
    """Makes projects and sets a quota through a node, until `end` is called."""

    def __init__(self, node):
        self.node, self.made, self.fanouts, self.ends = node, [], None, False
        self.threads = [threading.Thread(target=self.create_projects, args=(number,), daemon=True)
                        for number in range(2)]
        self.threads.append(threading.Thread(target=self.set_quotas, daemon=True))
        for thread in self.threads:
            thread.start()

    def create_projects(self, thread):
        number = 0
        while not self.ends:
            project = f"busy-{thread}-{number}"
            if create(self.node, project)[0]:
                self.made.append(project)
            else:
                time.sleep(0.05)
            number += 1

    def set_quotas(self):
        value = 1000
        while not self.ends:
            value += 1
            if set_limit(self.node, "fanouts", value)[0]:
                self.fanouts = value
                time.sleep(0.02)
            # The change may or may not be done, so either value may stand.
            else:
                self.fanouts = None
                time.sleep(0.05)

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join(60)


def again(node, busy):
    """Waits until the woken node changes projects again. Where other nodes fenced it while it slept, it ends
    with 70 and is started again. The node calls itself ready until it sees that it is fenced. A change that
    began after the node woke goes in only under a session that lives."""
    # Each thread may have had one change under way when the node froze.
    enough = len(busy.made) + len(busy.threads)
    deadline = time.monotonic() + 60
    while not (len(busy.made) > enough and node.is_ready()):
        if node.process.poll() is not None:
            check(node.process.returncode == 70, "it was fenced, and ended with 70")
            node.start()
        if time.monotonic() > deadline:
            raise SystemExit(f"FAIL: {node.name} does not change projects again")
        time.sleep(0.05)


def run(one, two, three):
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    print(f"seed {seed}")
    start((one, two))
    check(create(two, SHARED)[0], "a project is made")
    made, sends = [], 0
    busy = Busy(one)
    wait(lambda: len(busy.made) > 3, "the first changes")
    for number in range(ROUNDS):
        # The freeze nearly always hits the middle of a change, since making a project's key takes longer than
        # all other steps.
        time.sleep(0.2 + dice.random() / 2)
        one.process.send_signal(signal.SIGSTOP)
        done, said = create(two, f"other-{number}")
        check(done, f"round {number}: a project is made while the other process is"
                    f" frozen{': ' + said[:200] if not done else ''}")
        made.append(f"other-{number}")
        sends = 5000 + number
        done, said = set_limit(two, "sendsPerMinute", sends)
        check(done, f"round {number}: a quota is set meanwhile{': ' + said[:200] if not done else ''}")
        if number == ROUNDS - 1:
            start([three])
            check(create(three, "of-three")[0], "a node joins meanwhile, and changes projects")
            made.append("of-three")
        one.process.send_signal(signal.SIGCONT)
        again(one, busy)
    busy.end()

    expected = set(made) | set(busy.made)
    for node in (one, two, three):
        wait(lambda node=node: expected <= set(projects(node)), f"{node.name} to know what was acknowledged",
             10)
    check(True, f"{len(expected)} projects were acknowledged, and every node has them")
    numbers = list(projects(two).values())
    check(len(numbers) == len(set(numbers)), "no two projects have one number")
    for node in (one, two, three):
        wait(lambda node=node: limits(node).get("sendsPerMinute") == sends, f"{node.name} to have the quota",
             10)
    check(busy.fanouts is None or limits(two).get("fanouts") == busy.fanouts,
          "two limits of one project, set by two processes, both stand")


def main():
    with making() as made:
        run(*made.cluster("one", "two", "three")[1])
        print("cluster_frozen: ok")


if __name__ == "__main__":
    main()
