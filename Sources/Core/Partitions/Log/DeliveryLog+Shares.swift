import Model

// What waits for a device is shared by the senders of a user agent (rule: shares-of-a-device).

extension DeliveryLog {
    /// The messages of one share that wait for a device, the oldest first. The empty share is that of
    /// messages that name none.
    private struct Held {
        var share: [UInt8]
        var positions: [Position]
    }

    /// The share that has most of the device's messages once another one of `coming` has come. Of two with as
    /// many it is the one whose messages are older. Counts either the messages that collapse or the others.
    /// `nil` if no message names a share.
    private func greediest(
        of index: UInt32, collapsing: Bool, coming: [UInt8]
    ) -> Held? {
        guard keys.shareCount > 0 else { return nil }
        var shares: [[UInt8]: Held] = [:]
        for entry in waiting(for: index, after: .zero, limit: .max) where entry.isCollapsible == collapsing {
            let share = keys.name(of: entry.key)?.share ?? []
            shares[share, default: Held(share: share, positions: [])].positions.append(entry.position)
        }
        guard shares.keys.contains(where: { !$0.isEmpty }) else { return nil }
        func isSmaller(_ one: Held, _ other: Held) -> Bool {
            let counts = [one, other].map { $0.positions.count + ($0.share == coming ? 1 : 0) }
            return counts[0] != counts[1] ? counts[0] < counts[1] : one.positions[0] > other.positions[0]
        }
        return shares.values.max(by: isSmaller)
    }

    /// Takes the messages without a collapse key of the greediest share out for the device. Returns false if
    /// the device's messages name no share.
    mutating func dropShare(of index: UInt32, coming: [UInt8], _ departure: Departure) -> Bool {
        guard let held = greediest(of: index, collapsing: false, coming: coming) else { return false }
        for position in held.positions { drop(DeviceSet(index), at: position, departure) }
        return true
    }

    /// Takes the device out of the oldest entry with a collapse key, of the greediest share if there is one.
    mutating func evictCollapsible(of index: UInt32, coming: [UInt8], _ departure: Departure) {
        guard let held = greediest(of: index, collapsing: true, coming: coming) else {
            return evictOldestCollapsible(index, departure)
        }
        drop(DeviceSet(index), at: held.positions[0], departure)
    }
}
