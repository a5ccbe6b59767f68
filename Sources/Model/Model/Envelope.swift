/// A message as it travels and is stored: checked, and already in the form in which devices will read it.
public struct Envelope: Hashable, Sendable {
    public var id: MessageID
    /// The JSON object of the stream's `data:` line, in canonical camelCase, without line breaks.
    public var event: [UInt8]
    /// The first present of android `collapse_key`, `apns-collapse-id`, webpush `Topic`; empty for none.
    public var collapseKey: [UInt8]
    /// The message's sender, as a channel of a user agent: past a bound of a device the sender with most
    /// messages loses its own, and the others keep theirs. A key collapses only messages of its sender.
    /// Empty for none; at most `shareBytesMax` bytes.
    public var share: [UInt8]
    /// When the message was accepted, by the clock of the partition that has it; a gateway says when it was
    /// sent. From `sent` and the time to live on, a way takes the message to nobody.
    public var sent: WallTime
    public var times: TimesToLive

    public init(
        id: MessageID, event: [UInt8], collapseKey: [UInt8] = [], share: [UInt8] = [], sent: WallTime,
        times: TimesToLive
    ) {
        self.id = id
        self.event = event
        self.collapseKey = collapseKey
        self.share = share
        self.sent = sent
        self.times = times
    }

    /// With the same time to live on each way.
    public init(
        id: MessageID, event: [UInt8], collapseKey: [UInt8] = [], share: [UInt8] = [], sent: WallTime,
        ttlSeconds: UInt32
    ) {
        self.init(
            id: id, event: event, collapseKey: collapseKey, share: share, sent: sent,
            times: TimesToLive(ttlSeconds))
    }

    public static let shareBytesMax = 255

    /// When the message ends that may wait this many seconds.
    public func end(_ seconds: UInt32) -> WallTime {
        WallTime(milliseconds: sent.milliseconds + Int64(seconds) * 1000)
    }
}
