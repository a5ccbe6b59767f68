import Model
import Routing

/// A page of a device's topics in the order of their names. So the next page begins behind the last name of
/// this one, even if subscriptions come and go in between.
struct SubscriptionPage {
    let shown: [Subscription]
    let isLast: Bool

    /// `after`: the last name of the page before; empty for the first page. `precedes`: the order of names.
    ///
    /// A device's list may be 2,000 times as long as the page, so the list is not sorted: the page has the
    /// smallest names so far, and one comparison passes over each name behind them.
    init(
        of list: [Subscription], size: Int, after: [UInt8],
        precedes: (TopicName, TopicName) -> Bool = { $0 < $1 }
    ) {
        let start = after.isEmpty ? nil : TopicName(checked: after)
        var smallest: [Subscription] = []
        var count = 0
        var isCut = false
        for subscription in list {
            if let start, !precedes(start, subscription.topic) { continue }
            count += 1
            if isCut, !precedes(subscription.topic, smallest[size - 1].topic) { continue }
            smallest.append(subscription)
            guard smallest.count == 2 * size else { continue }
            smallest.sort { precedes($0.topic, $1.topic) }
            smallest.removeLast(size)
            isCut = true
        }
        smallest.sort { precedes($0.topic, $1.topic) }
        shown = Array(smallest.prefix(size))
        isLast = count <= size
    }
}
