import Model

/// The push services that reach each device of a partition, and for each service the set of its devices.
///
/// Addresses are long, and much of them is the same for many devices. So the table keeps them in packed pages
/// (`AddressPage`), and one page as it is: the page that changed last.
struct AddressTable: Equatable {
    private var pages: [UInt32: AddressPage] = [:]
    /// The page that changed last, in the order of indices. It is not among `pages`.
    private var open: (page: UInt32, rows: [AddressRow])?
    var count = 0
    private let recent = RecentAddressPage()
    /// The devices with an address of each kind, gone ones included, unused ones not. In the order of kinds.
    let devices = Transport.Kind.allCases.map { _ in Bitmap() }
    /// The devices of which all addresses are gone.
    var unreachable = UnreachableDevices()
    /// Of these, the devices whose address is gone, and those that acknowledge themselves.
    let oddDevices = Transport.Kind.allCases.map { _ in Bitmap() }
    /// The devices with a mark beside their address of each kind, unused ones included.
    let markedDevices = Transport.Kind.allCases.map { _ in Bitmap() }

    static func == (left: AddressTable, right: AddressTable) -> Bool {
        left.count == right.count && left.all.elementsEqual(right.all)
    }

    /// A device's addresses, in the order of their kinds; `nil` if it has none.
    subscript(index: UInt32) -> [StoredTransport]? {
        get {
            let page = AddressPage.number(of: index)
            if let open, open.page == page { return open.rows.first { $0.index == index }?.list }
            guard let packed = pages[page], packed.has(index) else { return nil }
            return recent.list(of: index, in: packed)
        }
        set {
            for (at, kind) in Transport.Kind.allCases.enumerated() {
                let marked = newValue?.first { $0.transport.kind == kind }
                _ = marked?.mark == nil ? markedDevices[at].remove(index) : markedDevices[at].add(index)
                let stored = marked.flatMap { $0.isUnused ? nil : $0 }
                _ = stored == nil ? devices[at].remove(index) : devices[at].add(index)
                _ = stored?.isOdd ?? false ? oddDevices[at].add(index) : oddDevices[at].remove(index)
            }
            unreachable.set(index, since: newValue.flatMap(AddressTable.unreachable))
            openPage(of: index)
            guard var rows = open?.rows else { return }
            open = nil
            let at = rows.firstIndex { $0.index >= index } ?? rows.count
            if at < rows.count, rows[at].index == index {
                count -= 1
                rows.remove(at: at)
            }
            if let newValue {
                count += 1
                rows.insert(AddressRow(index: index, list: newValue), at: at)
            }
            open = (AddressPage.number(of: index), rows)
        }
    }

    /// When the newest of a device's addresses was gone; `nil` if one is not gone. An unused address
    /// counts as none.
    private static func unreachable(_ list: [StoredTransport]) -> WallTime? {
        let used = list.filter { !$0.isUnused }
        return used.allSatisfy(\.isGone) ? used.compactMap { $0.mark?.since }.max() : nil
    }

    private mutating func openPage(of index: UInt32) {
        let page = AddressPage.number(of: index)
        if let open {
            guard open.page != page else { return }
            pages[open.page] = open.rows.isEmpty ? nil : AddressPage(open.rows)
        }
        open = (page, pages.removeValue(forKey: page)?.rows ?? [])
    }

    var isEmpty: Bool { count == 0 }
    /// The devices with a mark beside their address of the kind, ascending.
    func marked(_ kind: Transport.Kind) -> [UInt32] {
        DeviceSet(markedDevices[Int(kind.rawValue) - 1]).sorted
    }

    /// Ascending.
    var indices: [UInt32] {
        (pages.values.flatMap(\.indices) + (open?.rows.map(\.index) ?? [])).sorted()
    }
    /// In the order of indices.
    var all: some Swift.Sequence<AddressRow> {
        let numbers = (Array(pages.keys) + (open.map { [$0.page] } ?? [])).sorted()
        return numbers.lazy.flatMap { number in
            if let open, open.page == number { return open.rows }
            return pages[number]?.rows ?? []
        }
    }

    /// The kinds of the device's addresses, gone ones included: a device whose address is gone may register
    /// another.
    func kinds(of index: UInt32) -> Transport.Kinds {
        guard !isEmpty else { return [] }
        return Transport.Kinds(
            zip(Transport.Kind.allCases, devices).filter { $1.contains(index) }.map(\.0))
    }

    /// The devices with addresses of more than one kind, gone ones included.
    var withSeveralKinds: DeviceSet {
        let sets = devices.filter { !$0.isEmpty }.map { DeviceSet($0) }
        var (once, several) = (DeviceSet(), DeviceSet())
        for set in sets {
            several = several.union(once.intersection(set))
            once = once.union(set)
        }
        return several
    }

    /// The kinds of which some device of `set` has an address.
    func kinds(among set: DeviceSet) -> Transport.Kinds {
        guard !isEmpty else { return [] }
        return Transport.Kinds(
            zip(Transport.Kind.allCases, devices).filter { $1.mayShare(with: set) }.map(\.0))
    }

    /// The devices of `set` with an address of one of `kinds`.
    func targets(_ set: DeviceSet, _ kinds: Transport.Kinds) -> DeviceSet {
        guard !isEmpty else { return DeviceSet() }
        return zip(Transport.Kind.allCases, devices).reduce(DeviceSet()) { found, each in
            guard kinds.contains(each.0), !each.1.isEmpty else { return found }
            return found.union(set.intersection(DeviceSet(each.1)))
        }
    }

    /// The devices of `set` with an address of the kind that is there, and for which services acknowledge.
    func plain(_ set: DeviceSet, _ kind: Transport.Kind) -> DeviceSet {
        let at = Int(kind.rawValue) - 1
        guard !devices[at].isEmpty else { return DeviceSet() }
        let all = set.intersection(DeviceSet(devices[at]))
        return oddDevices[at].isEmpty ? all : all.subtracting(DeviceSet(oddDevices[at]))
    }

    /// The other devices of `set` with an address of the kind, or with the mark of one that is gone.
    func odd(_ set: DeviceSet, _ kind: Transport.Kind) -> DeviceSet {
        let at = Int(kind.rawValue) - 1
        return oddDevices[at].isEmpty ? DeviceSet() : set.intersection(DeviceSet(oddDevices[at]))
    }

    /// The sets must be what the addresses say.
    var brokenInvariant: String? {
        let rows = Array(all)
        if rows.count != count { return "the devices with addresses are counted wrong" }
        for (at, kind) in Transport.Kind.allCases.enumerated() {
            let devices = devices[at]
            let used = rows.map {
                AddressRow(
                    index: $0.index,
                    list: $0.list.filter { $0.transport.kind == kind && !$0.isUnused })
            }
            let marked = rows.filter { $0.list.contains { $0.transport.kind == kind && $0.mark != nil } }
            if marked.map(\.index) != self.marked(kind) { return "the devices with marks are wrong" }
            let isOdd = used.filter { $0.list.contains(where: \.isOdd) }
            if isOdd.map(\.index) != DeviceSet(oddDevices[at]).sorted {
                return "the devices that are looked at one by one are wrong"
            }
            let found = used.filter { !$0.list.isEmpty }
            if found.count != devices.count || found.contains(where: { !devices.contains($0.index) }) {
                return "the devices of a push service are not those that have its addresses"
            }
        }
        let gone = rows.filter { AddressTable.unreachable($0.list) != nil }
        if gone.count != unreachable.since.count
            || gone.contains(where: { AddressTable.unreachable($0.list) != unreachable.since[$0.index] })
        {
            return "the devices that nobody can reach are not those whose addresses are gone"
        }
        return nil
    }
}

extension StoredTransport {
    fileprivate var isOdd: Bool { isGone && !isUnused || transport.keepsMessages }
}
