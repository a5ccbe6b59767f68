import Model

/// Events in virtual time: the one queue of all simulated worlds. Events of one moment keep the order in
/// which they came.
///
/// A binary heap. The heap holds numbers of slots only, and the events do not move, so that a move costs no
/// reference counts.
public struct EventQueue<Event> {
    @usableFromInline
    struct Entry {
        @usableFromInline var time: MonotonicTime
        @usableFromInline var order: UInt64
        @usableFromInline var slot: Int

        @inlinable
        init(time: MonotonicTime, order: UInt64, slot: Int) {
            (self.time, self.order, self.slot) = (time, order, slot)
        }

        @inlinable
        static func isBefore(_ left: Entry, _ right: Entry) -> Bool {
            (left.time, left.order) < (right.time, right.order)
        }
    }
    @usableFromInline var heap: [Entry] = []
    @usableFromInline var slots: [Event?] = []
    @usableFromInline var freeSlots: [Int] = []
    @usableFromInline var pushed: UInt64 = 0
    /// The time of the last event that was taken out. Never goes back.
    public var now: MonotonicTime { time }
    @usableFromInline var time: MonotonicTime

    public init(began: MonotonicTime) { time = began }

    @inlinable
    public mutating func push(after delay: TimeSpan, _ event: Event) { push(at: now + delay, event) }

    /// An event of a time that is over happens now, after the others of this moment.
    @inlinable
    public mutating func push(at time: MonotonicTime, _ event: Event) {
        pushed += 1
        let entry = Entry(time: max(now, time), order: pushed, slot: keep(event))
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

    @inlinable
    mutating func keep(_ event: Event) -> Int {
        guard let slot = freeSlots.popLast() else {
            slots.append(event)
            return slots.count - 1
        }
        slots[slot] = event
        return slot
    }

    @inlinable
    public var nextTime: MonotonicTime? { heap.first?.time }

    /// Removes the next event and moves the clock to its time; `nil` if the queue is empty.
    @inlinable
    public mutating func next() -> Event? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty { sink(last) }
        freeSlots.append(first.slot)
        pass(to: first.time)
        return slots[first.slot].take()
    }

    /// Takes out the next event up to `end`, at whose time it then is; `nil` if there is none, and it is
    /// `end`.
    @inlinable
    public mutating func next(until end: MonotonicTime) -> Event? {
        if let time = nextTime, time <= end { return next() }
        pass(to: end)
        return nil
    }

    /// It is `time` now, whatever waits. Without effect if that time is over.
    @inlinable
    public mutating func pass(to time: MonotonicTime) { self.time = max(self.time, time) }

    /// Puts the entry in the first place, then below the entries that come before it.
    @inlinable
    mutating func sink(_ entry: Entry) {
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

    /// Lets go of all events that wait.
    public mutating func removeAll() { (heap, slots, freeSlots) = ([], [], []) }
}
