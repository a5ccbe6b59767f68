/// The requests and split changes of one router that are under way, by number.
///
/// A number tells the place in the table, so that finding a request costs nothing. Numbers rise with time, so
/// that a number stands for all requests that were asked before it. A place is used again only under
/// another number: an answer that comes too late finds nothing.
struct PendingTable {
    enum Entry {
        case request(Router.Pending)
        case change(Router.SplitChange)
    }
    struct Slot {
        var number: UInt64
        var entry: Entry?
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

    mutating func add(_ pending: Router.Pending) -> UInt64 { add(.request(pending)) }

    mutating func add(_ change: Router.SplitChange) -> UInt64 { add(.change(change)) }

    private mutating func add(_ entry: Entry) -> UInt64 {
        let place = free.popLast() ?? slots.count
        lastSerial += 1
        let number = lastSerial << placeBits | UInt64(place)
        if place == slots.count {
            slots.append(Slot(number: number, entry: entry))
        } else {
            slots[place] = Slot(number: number, entry: entry)
        }
        count += 1
        return number
    }

    /// The request of this number; `nil` also for the number of a change.
    subscript(number: UInt64) -> Router.Pending? {
        get {
            guard let place = place(of: number), case .request(let pending) = slots[place].entry else {
                return nil
            }
            return pending
        }
        set {
            guard let place = place(of: number), case .request = slots[place].entry else { return }
            if let newValue { slots[place].entry = .request(newValue) } else { remove(number) }
        }
    }

    subscript(change number: UInt64) -> Router.SplitChange? {
        get {
            guard let place = place(of: number), case .change(let change) = slots[place].entry else {
                return nil
            }
            return change
        }
        set {
            guard let place = place(of: number), case .change = slots[place].entry else { return }
            if let newValue { slots[place].entry = .change(newValue) } else { removeChange(number) }
        }
    }

    @discardableResult
    mutating func remove(_ number: UInt64) -> Router.Pending? {
        guard let place = place(of: number), case .request = slots[place].entry,
            case .request(let pending) = vacate(place)
        else { return nil }
        return pending
    }

    @discardableResult
    mutating func removeChange(_ number: UInt64) -> Router.SplitChange? {
        guard let place = place(of: number), case .change = slots[place].entry,
            case .change(let change) = vacate(place)
        else { return nil }
        return change
    }

    private mutating func vacate(_ place: Int) -> Entry? {
        free.append(place)
        count -= 1
        return slots[place].entry.take()
    }

    func contains(_ number: UInt64) -> Bool { place(of: number) != nil }

    /// Ascending.
    func numbers(upTo last: UInt64) -> [UInt64] {
        slots.lazy.filter { $0.entry != nil && $0.number <= last }.map(\.number).sorted()
    }

    private func place(of number: UInt64) -> Int? {
        let place = Int(number & (1 << placeBits - 1))
        guard place < slots.count, slots[place].number == number, slots[place].entry != nil else {
            return nil
        }
        return place
    }
}
