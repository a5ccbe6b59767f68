import Model

/// A binary heap of events by time; events of one time keep the order in which they came.
///
/// The heap holds places only, and the elements stay where they are, so that a move costs no reference
/// counts.
struct EventQueue<Element> {
    private struct Entry {
        var time: MonotonicTime
        var order: UInt64
        var place: Int

        static func isBefore(_ left: Entry, _ right: Entry) -> Bool {
            (left.time, left.order) < (right.time, right.order)
        }
    }
    private var heap: [Entry] = []
    private var elements: [Element?] = []
    private var free: [Int] = []
    private var pushed: UInt64 = 0

    mutating func push(_ time: MonotonicTime, _ element: Element) {
        pushed += 1
        let entry = Entry(time: time, order: pushed, place: keep(element))
        heap.append(entry)
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard Entry.isBefore(entry, heap[parent]) else { break }
            heap[child] = heap[parent]
            child = parent
        }
        heap[child] = entry
    }

    private mutating func keep(_ element: Element) -> Int {
        guard let place = free.popLast() else {
            elements.append(element)
            return elements.count - 1
        }
        elements[place] = element
        return place
    }

    var nextTime: MonotonicTime? { heap.first?.time }

    mutating func pop() -> (MonotonicTime, Element)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty { sink(last) }
        free.append(first.place)
        return elements[first.place].take().map { (first.time, $0) }
    }

    /// Puts the entry in the first place, then below the entries that come before it.
    private mutating func sink(_ entry: Entry) {
        var parent = 0
        while true {
            var child = parent * 2 + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, Entry.isBefore(heap[child + 1], heap[child]) { child += 1 }
            guard Entry.isBefore(heap[child], entry) else { break }
            heap[parent] = heap[child]
            parent = child
        }
        heap[parent] = entry
    }

    /// The next event, unless it comes after `end`.
    mutating func pop(before end: MonotonicTime) -> (MonotonicTime, Element)? {
        guard let first = heap.first, first.time <= end else { return nil }
        return pop()
    }

    /// All events, in order.
    var sorted: [(MonotonicTime, Element)] {
        heap.sorted(by: Entry.isBefore).compactMap { entry in
            elements[entry.place].map { (entry.time, $0) }
        }
    }
}
