/// The requests of one router that are under way, by number.
///
/// A number tells the place in the table, so that finding a request costs nothing. Numbers rise with time, so
/// that a number stands for all requests that were asked before it. A place is used again only under
/// another number: an answer that comes too late finds nothing.
struct PendingTable {
    struct Slot {
        var number: UInt64
        var pending: Router.Pending?
    }
    var slots: [Slot] = []
    var free: [Int] = []
    var count = 0
    private var lastSerial: UInt64 = 0
    private let placeBits: UInt64

    /// `capacity`: how many requests may be there at once.
    init(capacity: Int) {
        placeBits = UInt64(64 - capacity.leadingZeroBitCount)
    }

    mutating func add(_ pending: Router.Pending) -> UInt64 {
        let place = free.popLast() ?? slots.count
        lastSerial += 1
        let number = lastSerial << placeBits | UInt64(place)
        if place == slots.count {
            slots.append(Slot(number: number, pending: pending))
        } else {
            slots[place] = Slot(number: number, pending: pending)
        }
        count += 1
        return number
    }

    subscript(number: UInt64) -> Router.Pending? {
        get { place(of: number).flatMap { slots[$0].pending } }
        set {
            guard let place = place(of: number) else { return }
            if let newValue { slots[place].pending = newValue } else { remove(number) }
        }
    }

    @discardableResult
    mutating func remove(_ number: UInt64) -> Router.Pending? {
        guard let place = place(of: number) else { return nil }
        let pending = slots[place].pending.take()
        free.append(place)
        count -= 1
        return pending
    }

    /// Ascending.
    func numbers(upTo last: UInt64) -> [UInt64] {
        slots.lazy.filter { $0.pending != nil && $0.number <= last }.map(\.number).sorted()
    }

    private func place(of number: UInt64) -> Int? {
        let place = Int(number & (1 << placeBits - 1))
        guard place < slots.count, slots[place].number == number, slots[place].pending != nil else {
            return nil
        }
        return place
    }
}
