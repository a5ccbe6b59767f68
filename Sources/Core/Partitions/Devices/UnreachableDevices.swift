import Model

/// The devices of which push services have said that each of their addresses is gone, and when the newest of
/// these words came. They follow from the addresses, so no record and no snapshot holds them.
struct UnreachableDevices {
    private(set) var since: [UInt32: WallTime] = [:]
    /// The devices by the minute of that time.
    private var minutes: [Int64: Set<UInt32>] = [:]
    private var earliest: Int64?

    private static func minute(_ time: WallTime) -> Int64 { time.milliseconds / 60_000 }

    /// `time`: since when nobody can reach the device; `nil` if it has no address, or an address that is
    /// not gone.
    mutating func set(_ index: UInt32, since time: WallTime?) {
        let former = since[index]
        guard former != time else { return }
        if let former { remove(index, from: UnreachableDevices.minute(former)) }
        since[index] = time
        guard let time else { return }
        let minute = UnreachableDevices.minute(time)
        minutes[minute, default: []].insert(index)
        earliest = min(earliest ?? minute, minute)
    }

    private mutating func remove(_ index: UInt32, from minute: Int64) {
        minutes[minute]?.remove(index)
        guard minutes[minute]?.isEmpty ?? false else { return }
        minutes[minute] = nil
        if earliest == minute { earliest = minutes.keys.min() }
    }

    /// No device is unreachable since before this time: the beginning of a minute.
    var first: WallTime? { earliest.map { WallTime(milliseconds: $0 * 60_000) } }

    /// Devices that are unreachable since `time` or before. All of them are of the first minute: a caller
    /// with many goes on later.
    func due(_ time: WallTime, limit: Int) -> [UInt32] {
        guard let earliest, let first = minutes[earliest] else { return [] }
        return Array(first.filter { since[$0].map { $0 <= time } ?? false }.sorted().prefix(limit))
    }
}
