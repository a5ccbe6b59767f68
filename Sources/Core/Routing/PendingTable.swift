/// The requests and split changes of one router that are under way, by number.
///
/// A number contains the slot in the table, so that finding a request costs nothing. Numbers rise with time,
/// so that a number bounds all requests that were asked before it. A slot is used again only under
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
    private let slotBits: UInt64

    /// `capacity`: how many requests may be there at once.
    init(capacity: Int) {
        slotBits = UInt64(64 - capacity.leadingZeroBitCount)
    }

    mutating func add(_ pending: Router.Pending) -> UInt64 { add(.request(pending)) }

    mutating func add(_ change: Router.SplitChange) -> UInt64 { add(.change(change)) }

    private mutating func add(_ entry: Entry) -> UInt64 {
        let slot = free.popLast() ?? slots.count
        lastSerial += 1
        let number = lastSerial << slotBits | UInt64(slot)
        if slot == slots.count {
            slots.append(Slot(number: number, entry: entry))
        } else {
            slots[slot] = Slot(number: number, entry: entry)
        }
        count += 1
        return number
    }

    /// The request of this number; `nil` also for the number of a change.
    subscript(number: UInt64) -> Router.Pending? {
        get {
            guard let slot = slot(of: number), case .request(let pending) = slots[slot].entry else {
                return nil
            }
            return pending
        }
        set {
            guard let slot = slot(of: number), case .request = slots[slot].entry else { return }
            if let newValue { slots[slot].entry = .request(newValue) } else { remove(number) }
        }
    }

    subscript(change number: UInt64) -> Router.SplitChange? {
        get {
            guard let slot = slot(of: number), case .change(let change) = slots[slot].entry else {
                return nil
            }
            return change
        }
        set {
            guard let slot = slot(of: number), case .change = slots[slot].entry else { return }
            if let newValue { slots[slot].entry = .change(newValue) } else { removeChange(number) }
        }
    }

    @discardableResult
    mutating func remove(_ number: UInt64) -> Router.Pending? {
        guard let slot = slot(of: number), case .request = slots[slot].entry,
            case .request(let pending) = vacate(slot)
        else { return nil }
        return pending
    }

    @discardableResult
    mutating func removeChange(_ number: UInt64) -> Router.SplitChange? {
        guard let slot = slot(of: number), case .change = slots[slot].entry,
            case .change(let change) = vacate(slot)
        else { return nil }
        return change
    }

    private mutating func vacate(_ slot: Int) -> Entry? {
        free.append(slot)
        count -= 1
        return slots[slot].entry.take()
    }

    func contains(_ number: UInt64) -> Bool { slot(of: number) != nil }

    /// Ascending.
    func numbers(upTo last: UInt64) -> [UInt64] {
        slots.lazy.filter { $0.entry != nil && $0.number <= last }.map(\.number).sorted()
    }

    private func slot(of number: UInt64) -> Int? {
        let slot = Int(number & (1 << slotBits - 1))
        guard slot < slots.count, slots[slot].number == number, slots[slot].entry != nil else {
            return nil
        }
        return slot
    }
}
