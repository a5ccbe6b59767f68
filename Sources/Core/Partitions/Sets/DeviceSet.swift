/// A set of devices of one partition, as a value. Fan-outs and entries of the delivery log hold such sets.
///
/// Most sets are tiny: one device needs no memory on the heap, and a few devices are a sorted array. Only
/// past `DeviceSet.arrayMax` devices the set becomes a shared Roaring bitmap.
public struct DeviceSet: Sendable {
    /// The most devices that are kept as a sorted array.
    static let arrayMax = 64

    enum Storage: Sendable {
        case none
        case one(UInt32)
        /// Ascending, 2...arrayMax.
        case few([UInt32])
        case many(Bitmap)
    }
    private(set) var storage: Storage

    public init() { storage = .none }
    public init(_ index: UInt32) { storage = .one(index) }

    /// `indices` ascending, without repeats.
    public init(sorted indices: [UInt32]) {
        switch indices.count {
        case 0: storage = .none
        case 1: storage = .one(indices[0])
        case ...DeviceSet.arrayMax: storage = .few(indices)
        default: storage = .many(Bitmap(sorted: indices))
        }
    }

    /// Shares `bitmap` as it is now.
    init(_ bitmap: Bitmap) { storage = bitmap.isEmpty ? .none : .many(bitmap) }

    /// Bytes of the set in a record, at most.
    var weight: Int {
        switch storage {
        case .none: 1
        case .one: 6
        case .few(let indices): 2 + 5 * indices.count
        case .many(let bitmap):
            max(10 + bitmap.serializedCount, 2 + 5 * min(bitmap.count, DeviceSet.arrayMax))
        }
    }

    public var isEmpty: Bool {
        if case .none = storage { return true }
        return false
    }

    public var count: Int {
        switch storage {
        case .none: 0
        case .one: 1
        case .few(let indices): indices.count
        case .many(let bitmap): bitmap.count
        }
    }

    public func contains(_ index: UInt32) -> Bool {
        switch storage {
        case .none: false
        case .one(let only): only == index
        case .few(let indices): DeviceSet.search(for: index, in: indices).found
        case .many(let bitmap): bitmap.contains(index)
        }
    }

    /// Ascending.
    @inline(__always)
    public func forEach(_ body: (UInt32) -> Void) {
        switch storage {
        case .none: break
        case .one(let only): body(only)
        case .few(let indices): for index in indices { body(index) }
        case .many(let bitmap): bitmap.forEach(body)
        }
    }

    public var sorted: [UInt32] {
        var all: [UInt32] = []
        all.reserveCapacity(count)
        forEach { all.append($0) }
        return all
    }

    /// Returns whether the device was there.
    @discardableResult
    mutating func remove(_ index: UInt32) -> Bool {
        switch storage {
        case .none:
            return false
        case .one(let only):
            guard only == index else { return false }
            storage = .none
            return true
        case .few(var indices):
            let lookup = DeviceSet.search(for: index, in: indices)
            guard lookup.found else { return false }
            storage = .none  // so that the array is not copied
            indices.remove(at: lookup.index)
            self = DeviceSet(sorted: indices)
            return true
        case .many(var bitmap):
            guard bitmap.contains(index) else { return false }
            storage = .none
            if !isKnownUniquelyReferenced(&bitmap) { bitmap = bitmap.copy() }
            _ = bitmap.remove(index)
            self = DeviceSet(bitmap)
            return true
        }
    }

    func intersection(_ other: DeviceSet) -> DeviceSet {
        switch (storage, other.storage) {
        case (.none, _), (_, .none): return DeviceSet()
        case (.many(let left), .many(let right)): return DeviceSet(left.intersection(right))
        case (.many, _): return other.filtered { contains($0) }
        default: return filtered { other.contains($0) }
        }
    }

    func union(_ other: DeviceSet) -> DeviceSet {
        switch (storage, other.storage) {
        case (.none, _): return other
        case (_, .none): return self
        case (.many(let left), .many(let right)): return DeviceSet(left.union(right))
        case (.many(let left), _): return DeviceSet(left.union(Bitmap(sorted: other.sorted)))
        case (_, .many(let right)): return DeviceSet(right.union(Bitmap(sorted: sorted)))
        default: return DeviceSet(sorted: Set(sorted).union(other.sorted).sorted())
        }
    }

    func subtracting(_ other: DeviceSet) -> DeviceSet {
        switch (storage, other.storage) {
        case (.none, _), (_, .none): return self
        case (.many(let left), .many(let right)): return DeviceSet(left.subtracting(right))
        case (.many(let left), _): return DeviceSet(left.subtracting(Bitmap(sorted: other.sorted)))
        default: return filtered { !other.contains($0) }
        }
    }

    func filtered(_ keep: (UInt32) -> Bool) -> DeviceSet {
        if case .one(let only) = storage { return keep(only) ? self : DeviceSet() }
        var kept: [UInt32] = []
        forEach { if keep($0) { kept.append($0) } }
        return DeviceSet(sorted: kept)
    }

    static func search(for index: UInt32, in indices: [UInt32]) -> (index: Int, found: Bool) {
        var low = 0
        var high = indices.count
        while low < high {
            let middle = (low + high) / 2
            if indices[middle] < index { low = middle + 1 } else { high = middle }
        }
        return (low, low < indices.count && indices[low] == index)
    }
}

extension DeviceSet: Equatable {
    public static func == (left: DeviceSet, right: DeviceSet) -> Bool {
        left.count == right.count && left.sorted == right.sorted
    }
}

extension DeviceSet {
    /// Adds `indices` (ascending, without repeats); calls `added` for each that was not there.
    mutating func insert(_ indices: [UInt32], added: (UInt32) -> Void) {
        if case .many(var bitmap) = storage {
            storage = .none
            if !isKnownUniquelyReferenced(&bitmap) { bitmap = bitmap.copy() }
            for index in indices where bitmap.add(index) { added(index) }
            storage = .many(bitmap)
            return
        }
        var merged = sorted
        var fresh = false
        for index in indices {
            let lookup = DeviceSet.search(for: index, in: merged)
            guard !lookup.found else { continue }
            merged.insert(index, at: lookup.index)
            added(index)
            fresh = true
        }
        if fresh { self = DeviceSet(sorted: merged) }
    }
}
