import Model

/// Messages that a push service is to take now or never: their time to live there is 0. Each device gets one
/// attempt, and what becomes of it changes nothing but what a service says of the address.
///
/// The attempts are in memory alone: an owner that ends takes them with it. They are bounded in number, in
/// bytes and in time, and what is over a bound is left out.
struct MomentaryPushes {
    struct Message {
        var position: Position
        /// The record that the message rests on, which is durable.
        var record: Sequence
        var event: [UInt8]
        var sent: WallTime
        var kinds: Transport.Kinds
        /// The devices for which the message was put into the log.
        var kept: DeviceSet
        /// No attempt begins after this.
        var until: MonotonicTime
    }
    private struct Batch {
        var message: Message
        /// Ascending.
        var devices: [UInt32]
        var next = 0
    }

    private var batches: [Batch] = []
    private var head = 0
    /// Attempts that have not begun, and bytes of the messages that they are for.
    var waiting = 0
    var bytes = 0
    /// Attempts at the sender.
    var sendings: [UInt64: PushTable.Sending] = [:]

    mutating func add(
        _ message: Message, for devices: [UInt32], devicesMax: Int, bytesMax: Int
    ) {
        let room = max(0, devicesMax - waiting)
        guard !devices.isEmpty, room > 0, bytes + message.event.count <= bytesMax else { return }
        let kept = Array(devices.prefix(room))
        batches.append(Batch(message: message, devices: kept))
        waiting += kept.count
        bytes += message.event.count
    }

    /// The next attempt. The caller says first whether there is a slot for it.
    mutating func next(_ now: MonotonicTime) -> (message: Message, index: UInt32)? {
        while head < batches.count {
            let batch = batches[head]
            guard batch.message.until > now else {
                dropFirst()
                continue
            }
            batches[head].next += 1
            waiting -= 1
            if batches[head].next == batch.devices.count { dropFirst() }
            return (batch.message, batch.devices[batch.next])
        }
        return nil
    }

    private mutating func dropFirst() {
        waiting -= batches[head].devices.count - batches[head].next
        bytes -= batches[head].message.event.count
        (batches[head].devices, batches[head].message.event) = ([], [])
        head += 1
        guard head == batches.count || head > 64 && head * 2 > batches.count else { return }
        batches.removeFirst(head)
        head = 0
    }

    /// The first law that does not hold; `nil` where all do.
    func brokenInvariant(devicesMax: Int, bytesMax: Int) -> String? {
        let left = batches[head...]
        if left.reduce(0, { $0 + $1.devices.count - $1.next }) != waiting {
            return "attempts of now or never are counted wrong"
        }
        if left.reduce(0, { $0 + $1.message.event.count }) != bytes {
            return "bytes of messages of now or never are counted wrong"
        }
        if waiting > devicesMax || bytes > bytesMax { return "more waits for now or never than may" }
        return nil
    }
}
