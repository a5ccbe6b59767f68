"""How much more was admitted than a quota allows, from the times of the requests alone; and where a quota lives."""

MASK = (1 << 64) - 1
C, D = 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3


def overshoot(admitted, rate, burst):
    """The most by which any window held more than burst + rate × its length; negative where none did.

    `admitted`: (began, ended) of each request. A window reaches from the beginning of its first request to the end of
    its last, so it is never shorter than the time in which the requests were really admitted, and what is found here
    really was too much.
    """
    requests = sorted(admitted, key=lambda one: one[1])
    earliest, began = [], float("inf")
    for start, _ in reversed(requests):
        began = min(began, start)
        earliest.append(began)
    earliest.reverse()
    best, first = float("-inf"), float("-inf")
    for number, (_, end) in enumerate(requests):
        first = max(first, rate * earliest[number] - number)
        best = max(best, number + 1 - rate * end + first)
    return best - burst


def longest_pause(ends, since):
    """The longest time without an admission, from some moment on."""
    times = [since] + sorted(end for end in ends if end > since)
    return max((after - before for before, after in zip(times, times[1:])), default=0.0)


def home_partition(project, count):
    """As Sources/Placement has it, to the bit: a part of the data's format."""
    def weight(partition):
        product = (project + 1) * C
        mixed = ((product >> 64) ^ (product & MASK)) + (partition + 1) * D & MASK
        mixed ^= mixed >> 32
        mixed = mixed * 0xD6E8FEB86659FD93 & MASK
        mixed ^= mixed >> 29
        mixed = mixed * 0xA0761D6478BD642F & MASK
        return mixed ^ mixed >> 32
    return max(range(count), key=lambda partition: (weight(partition), -partition))
