"""The faults by number. A fault is a function that breaks something for some seconds and returns when it is over."""
import dataclasses
import typing


@dataclasses.dataclass
class Fault:
    number: str
    title: str
    work: typing.Callable
    # For how long it lasts, roughly.
    seconds: float = 8
    # Gateways whose connections may break; "*" for all.
    broken: tuple = ()
    # More statuses that are right under it.
    extra: tuple = ()
    # Nodes that may end by a fail-stop that their log names.
    may_stop: tuple = ()
    # Seconds from its end until all nodes agree and everything is served.
    limit: float = 10
    # Why it is known to break something; its problems are shown and do not count.
    known: str = ""
    # Operations a second, where they differ from the usual.
    rates: dict = None
    # A script of Tests/acceptance and its arguments, with servers and checkers of its own, where it is one.
    script: tuple = ()


FAULTS = {}


def fault(number, title, **fields):
    def register(work):
        FAULTS[number] = Fault(number, title, work, **fields)
        return work
    return register


def key(number):
    """Numbers in order, 16b behind 16."""
    digits = "".join(one for one in number if one.isdigit())
    return int(digits), number
