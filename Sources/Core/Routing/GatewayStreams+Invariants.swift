import Model

// The invariants of a gateway's streams between two events.

extension GatewayStreams: InvariantChecking {
    /// The first invariant that does not hold; `nil` if all do. `isWhole`: also those of every stream.
    public func brokenInvariant(isWhole: Bool) -> String? {
        if listeners.count != (outlivesOwners ? streams.count : 0) {
            return "not every stream has its listener, or a listener has no stream"
        }
        guard isWhole else { return nil }
        if members.values.reduce(0, { $0 + $1.count }) != streams.count {
            return "partitions have other streams than there are"
        }
        if unopened.contains(where: { streams[$0] == nil }) { return "a stream that is gone waits to open" }
        for (number, stream) in streams {
            if !(members[stream.partition]?.contains(number) ?? false) {
                return "stream \(number) is not its partition's"
            }
            if number > lastNumber { return "stream \(number) has a number that was not given" }
            if outlivesOwners, listeners[number] == nil {
                return "stream \(number) would not outlive an owner"
            }
        }
        return brokenInIndex ?? brokenInFrames
    }

    /// How many entries a whole look visits, about.
    public var checkSize: Int { streams.count + byDevice.values.reduce(0) { $0 + $1.count } * 256 }

    /// Pushes must find streams that are there, live, and their device's.
    private var brokenInIndex: String? {
        for (partition, pages) in byDevice {
            for (page, numbers) in pages.enumerated() {
                for (slot, number) in numbers.enumerated() where number > 0 {
                    guard let stream = streams[number] else {
                        return "pushes find stream \(number), which is gone"
                    }
                    let index = UInt32(page * GatewayStreams.pageSize + slot)
                    if stream.partition != partition || stream.device.rawValue != index {
                        return "pushes for another device find stream \(number)"
                    }
                    if stream.pace != .current { return "pushes find stream \(number), which is behind" }
                }
            }
        }
        return nil
    }

    private var brokenInFrames: String? {
        for partition in numbers.keys where epochs[partition] == nil {
            return "frames of partition \(partition.rawValue) come without a known epoch"
        }
        return nil
    }
}
