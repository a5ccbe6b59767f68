"""The partitions of topics and quotas. Must equal Sources/Core/Placement bit by bit, since placement is part
of the data's format."""
import itertools

MASK = (1 << 64) - 1
A, B = 0x9E3779B97F4A7C15, 0xE7037ED1A0B428DB
C, D = 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3


def fold(one, other):
    """The 128 bits of the product of two words, folded to 64."""
    product = one * other
    return product >> 64 ^ product & MASK


def finish(mixed):
    """The last mixing of a hash."""
    mixed ^= mixed >> 32
    mixed = mixed * 0xD6E8FEB86659FD93 & MASK
    mixed ^= mixed >> 29
    mixed = mixed * 0xA0761D6478BD642F & MASK
    return mixed ^ mixed >> 32


def topic_hash(topic, project):
    """The hash of a topic of a project."""
    name, state = topic.encode(), fold(project + 1, A) ^ B
    whole = len(name) // 8 * 8
    for place in range(0, whole, 8):
        word = int.from_bytes(name[place:place + 8], "little")
        state = fold(state ^ word, C) + word * A & MASK
    rest = int.from_bytes(name[whole:], "little")
    state = fold(state ^ rest, D) + rest * A & MASK
    return finish(state ^ len(name) * B & MASK)


def partition_of(topic, project, count):
    """The partition of a topic; `project` is the project's number."""
    return topic_hash(topic, project) * count >> 64


def topics_of(partitions, project, names, count):
    """So many names of topics whose partitions, of `count`, are among those."""
    topics = (f"t{number}" for number in itertools.count(1))
    found = (topic for topic in topics if partition_of(topic, project, count) in partitions)
    return list(itertools.islice(found, names))


def home_partition(project, count):
    """The partition whose owner keeps a project's buckets."""
    def weight(partition):
        return finish(fold(project + 1, C) + (partition + 1) * D & MASK)
    return max(range(count), key=lambda partition: (weight(partition), -partition))
