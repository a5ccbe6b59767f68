/// Events by time, those of one time in the order in which they came: a binary heap.
struct EventQueue<Element> {
    private var heap: [(time: UInt64, order: UInt64, element: Element)] = []
    private var pushed: UInt64 = 0

    mutating func push(_ time: UInt64, _ element: Element) {
        pushed += 1
        heap.append((time, pushed, element))
        var child = heap.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    var nextTime: UInt64? { heap.first?.time }

    mutating func pop() -> (UInt64, Element)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            var parent = 0
            while true {
                var least = parent
                for child in [parent * 2 + 1, parent * 2 + 2]
                where child < heap.count && isBefore(child, least) {
                    least = child
                }
                if least == parent { break }
                heap.swapAt(parent, least)
                parent = least
            }
        }
        return (first.time, first.element)
    }

    /// The next one, unless it comes after `end`.
    mutating func pop(before end: UInt64) -> (UInt64, Element)? {
        guard let first = heap.first, first.time <= end else { return nil }
        return pop()
    }

    /// Everything that is due, in order.
    var sorted: [(UInt64, Element)] {
        heap.sorted { ($0.time, $0.order) < ($1.time, $1.order) }.map { ($0.time, $0.element) }
    }

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        (heap[left].time, heap[left].order) < (heap[right].time, heap[right].order)
    }
}
