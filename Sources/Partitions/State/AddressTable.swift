import Model

/// The push services that reach each device of a partition, and for each service the set of its devices.
struct AddressTable: Equatable {
    private var stored: [UInt32: [StoredTransport]] = [:]
    /// The devices with an address of each kind, or with the mark that one is gone. In the order of kinds.
    let devices = Transport.Kind.allCases.map { _ in Bitmap() }

    static func == (left: AddressTable, right: AddressTable) -> Bool { left.stored == right.stored }

    /// A device's addresses, in the order of their kinds; `nil` where it has none.
    subscript(index: UInt32) -> [StoredTransport]? {
        get { stored[index] }
        set {
            for (kind, devices) in zip(Transport.Kind.allCases, devices) {
                let has = newValue?.contains { $0.transport.kind == kind } ?? false
                _ = has ? devices.add(index) : devices.remove(index)
            }
            stored[index] = newValue
        }
    }

    var isEmpty: Bool { stored.isEmpty }
    var count: Int { stored.count }
    var indices: [UInt32] { stored.keys.sorted() }
    /// In the order of indices.
    var all: [(index: UInt32, stored: [StoredTransport])] {
        stored.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// The kinds of the device's addresses, gone ones included: a device whose address is gone may tell
    /// another.
    func kinds(of index: UInt32) -> Transport.Kinds {
        guard !stored.isEmpty, let list = stored[index] else { return [] }
        return Transport.Kinds(list.lazy.map(\.transport.kind))
    }

    /// The kinds of which some device of `set` has an address.
    func kinds(among set: DeviceSet) -> Transport.Kinds {
        guard !stored.isEmpty else { return [] }
        return Transport.Kinds(
            zip(Transport.Kind.allCases, devices).filter { $1.mayShare(with: set) }.map(\.0))
    }

    /// The devices of `set` with an address of one of `kinds`.
    func targets(_ set: DeviceSet, _ kinds: Transport.Kinds) -> DeviceSet {
        guard !stored.isEmpty else { return DeviceSet() }
        return zip(Transport.Kind.allCases, devices).reduce(DeviceSet()) { found, each in
            guard kinds.contains(each.0), !each.1.isEmpty else { return found }
            return found.union(set.intersection(DeviceSet(each.1)))
        }
    }

    /// The sets must be what the addresses say.
    var brokenInvariant: String? {
        for (kind, devices) in zip(Transport.Kind.allCases, devices) {
            let found = stored.filter { $0.value.contains { $0.transport.kind == kind } }
            if found.count != devices.count || found.keys.contains(where: { !devices.contains($0) }) {
                return "the devices of a push service are not those that have its addresses"
            }
        }
        return nil
    }
}
