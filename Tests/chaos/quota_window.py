"""By how much the admitted requests exceed a quota, from the times of the requests alone."""
import itertools


def overshoot(admitted, rate, burst):
    """The most by which the requests of any window exceed burst + rate × its length; negative where no window
    exceeds it.

    `admitted`: (began, ended) of each request. A window reaches from the begin of its first request to the
    end of its last. So a window is never shorter than the time in which the server admitted its requests, and
    an excess found here is a real one.
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
    """The longest time without an admission, from the moment `since` on."""
    times = [since] + sorted(end for end in ends if end > since)
    return max((after - before for before, after in itertools.pairwise(times)), default=0.0)
