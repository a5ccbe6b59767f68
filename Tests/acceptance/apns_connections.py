"""What a service for Apple's pushes may do to its connections while messages are under way: see
apns_connections.sh."""
from system.apple import TEAM, Apple, Phone, all_got
from system.checks import check, wait
from system.node import making
from system.shop import Project

DEVICES = 40
# Seconds for which the service thinks about a request that is to be under way.
UNDER_WAY = 4
# Streams that the stand-in allows by itself.
STREAMS = 100


def requests(service, since=0):
    """What the service noted of each request, from a place in its notes on."""
    return [note for note in service.seen[since:] if note["event"] == "request"]


def hold(phones, seconds=UNDER_WAY):
    """The service answers the next request for each phone after so many seconds."""
    for phone in phones:
        phone.plan(delay=seconds, times=1)


def begin(shop, service, phones, count):
    """Sends a message to all phones, and returns its name when the service has `count` requests of it, none
    of which is answered."""
    hold(phones)
    since = len(service.seen)
    name = shop.publish("news", data={"under": "way"})
    wait(lambda: len(requests(service, since)) >= count, f"{count} requests under way")
    return name


def wait_done(service, connections, event):
    """Waits until each of the connections has noted the event."""
    wait(lambda: {note["connection"] for note in service.seen if note["event"] == event} >= connections,
         f"{event} on {len(connections)} connections")


def lowered(shop, service, phones):
    """SETTINGS come while requests are under way: each connection has one stream from then on."""
    name = begin(shop, service, phones, 20)
    check(max(note["open"] for note in requests(service)) > 1, "a connection carries several requests")
    since = len(service.seen)
    service.allow(1)
    names = [name] + [shop.publish("news", data={"n": str(number)}) for number in range(2)]
    for each in names:
        wait(lambda each=each: all_got(phones, each), "all phones to have each message", 120)
    told, alone, crowded = set(), 0, 0
    for note in service.seen[since:]:
        if note["event"] == "bound" and note["streams"] == 1:
            told.add(note["connection"])
        elif note["event"] == "request" and note["connection"] in told:
            alone, crowded = alone + (note["open"] == 1), crowded + (note["open"] > 1)
    check(alone > 0 and crowded == 0,
          f"a bound that is lowered to 1 with requests under way is obeyed by {alone} later ones")
    check(all(phone.got(each) == 1 for phone in phones for each in names), "each phone has each message once")
    service.allow(STREAMS)


def disowned(shop, service, phones):
    """GOAWAY names a last stream while later ones are under way."""
    name = begin(shop, service, phones, 20)
    former = set(service.connections)
    service.go_away("Shutdown", processed=3)
    wait_done(service, former, "goaway")
    wait(lambda: all_got(phones, name), "all phones to have the message")
    again = [phone for phone in phones if phone.device.disowned]
    check(again and all(phone.device.accepted[-1][1] != phone.device.disowned[-1][1] for phone in again),
          f"{len(again)} requests behind GOAWAY's last stream come again over another connection")
    check(len(again) < len(phones) and all(phone.got(name) == 1 for phone in phones),
          "none is lost, and what the service still processes is not sent twice")
    later = shop.publish("news", data={"after": "GOAWAY"})
    wait(lambda: all_got(phones, later), "the next message")
    wait(lambda: not former & set(service.connections), "the former connections to be closed")


def silent(shop, service, phones):
    """The service stops reading and writing, and its connections stay."""
    former = set(service.connections)
    service.freeze()
    wait_done(service, former, "frozen")
    name = shop.publish("news", data={"to": "nobody yet"})
    wait(lambda: all_got(phones, name), "all phones to have the message", 120)
    check(all(phone.got(name) == 1 and phone.device.accepted[-1][1] not in former for phone in phones),
          "a service that is silent is noticed, and the message comes once, over another connection")


def main():
    with making() as made:
        apple = Apple(made.folder)
        server, service = made.server(), apple.service
        shop = Project(server)
        apple.give(shop, "KEY0000001", TEAM)
        phones = [Phone(shop, service) for _ in range(DEVICES)]
        shop.subscribe([phone.token for phone in phones], "news")
        first = shop.publish("news", data={"the": "first"})
        wait(lambda: all_got(phones, first), "all phones to have the first message")
        for step in (lowered, disowned, silent):
            step(shop, service, phones)
        check(not service.mistakes, f"the service understood each push: {service.mistakes[:3]}")
        server.end()
        service.close()


main()
