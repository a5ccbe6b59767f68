"""How much more was admitted than a quota allows, from the times of the requests alone."""


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
