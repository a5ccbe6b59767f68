"""Network namespaces with a switch between them: one namespace for each service of a cluster. Needs root."""
import os
import shutil
import subprocess


def sh(*command, check=True, quiet=False):
    """Runs a command: a CompletedProcess. Raises CalledProcessError unless `check` is false; `quiet` drops
    the output."""
    return subprocess.run(command, check=check, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL if quiet else None,
                          stderr=subprocess.DEVNULL if quiet else None)


class Network:
    """The namespaces `cluster`-`service` on the /24 `subnet` (three numbers). The host has the address 1, and
    the services have the addresses from 2 on, in the order of `names`."""

    def __init__(self, cluster, subnet):
        self.cluster, self.subnet = cluster, subnet
        self.switch = f"{cluster}-switch"
        # This machine's own port at the switch.
        self.port = f"{cluster}0"

    def namespace(self, name):
        """The namespace of a service."""
        return f"{self.cluster}-{name}"

    def in_namespace(self, name, *command):
        """The command that runs `command` in a service's namespace."""
        return ["ip", "netns", "exec", self.namespace(name), *command]

    def address(self, names, name):
        """The address of the service `name`, one of `names`."""
        return f"{self.subnet}.{list(names).index(name) + 2}"

    def make(self, names):
        """Makes a namespace with a bridge as the switch, and a namespace for each service. Each hosts file
        names all services."""
        sh("ip", "netns", "add", self.switch)
        sh("ip", "-n", self.switch, "link", "add", "bridge0", "type", "bridge")
        sh("ip", "-n", self.switch, "link", "set", "bridge0", "up")
        hosts = "127.0.0.1 localhost\n" + "".join(f"{self.address(names, name)} {name}\n" for name in names)
        for number, name in enumerate(names):
            space = self.namespace(name)
            sh("ip", "netns", "add", space)
            sh("ip", "-n", self.switch, "link", "add", f"port{number}", "type", "veth", "peer", "name",
               "eth0", "netns", space)
            sh("ip", "-n", self.switch, "link", "set", f"port{number}", "master", "bridge0", "up")
            sh("ip", "-n", space, "link", "set", "lo", "up")
            sh("ip", "-n", space, "addr", "add", f"{self.address(names, name)}/24", "dev", "eth0")
            sh("ip", "-n", space, "link", "set", "eth0", "up")
            # As container engines do: users other than root may listen on low ports.
            sh("ip", "netns", "exec", space, "sh", "-c",
               "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start")
            os.makedirs(f"/etc/netns/{space}", exist_ok=True)
            with open(f"/etc/netns/{space}/hosts", "w", encoding="utf-8") as file:
                file.write(hosts)
        # The way from this machine to the switch.
        sh("ip", "link", "add", self.port, "type", "veth", "peer", "name", "outside", "netns", self.switch)
        sh("ip", "-n", self.switch, "link", "set", "outside", "master", "bridge0", "up")
        sh("ip", "addr", "add", f"{self.subnet}.1/24", "dev", self.port)
        sh("ip", "link", "set", self.port, "up")

    def remove(self, names):
        """Removes the network, as far as it is there."""
        sh("ip", "link", "del", self.port, check=False, quiet=True)
        for name in names:
            sh("ip", "netns", "del", self.namespace(name), check=False, quiet=True)
            shutil.rmtree(f"/etc/netns/{self.namespace(name)}", ignore_errors=True)
        sh("ip", "netns", "del", self.switch, check=False, quiet=True)
