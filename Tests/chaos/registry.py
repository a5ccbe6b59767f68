"""The faults by number. A fault is a function that breaks something for some seconds and returns when it is
over."""
import dataclasses
import typing


@dataclasses.dataclass
class Fault:
    number: str
    title: str
    work: typing.Callable
    # About how many seconds the fault lasts.
    seconds: float = 8
    # Gateways whose connections may break under the fault; "*" for all.
    broken: tuple = ()
    # Further statuses that are right under the fault.
    extra: tuple = ()
    # Nodes that may end by a fail-stop that their log names; "*" for all.
    may_stop: tuple = ()
    # Within so many seconds of the fault's end all nodes must agree, and then everything must be served.
    limit: float = 10
    # Why the fault is known to break something. The run shows its problems and does not count them.
    known: str = ""
    # Operations a second by kind, where they differ from the workload's own.
    rates: dict = None
    # Where the fault is a script of Tests/acceptance, with servers and checkers of its own: the script and
    # its arguments.
    script: tuple = ()


FAULTS = {}


def fault(number, title, **fields):
    def register(work):
        FAULTS[number] = Fault(number, title, work, **fields)
        return work
    return register


def key(number):
    """A key for sorting: numbers in order, 16b after 16."""
    digits = "".join(one for one in number if one.isdigit())
    return int(digits), number
