/// A message as it travels and is stored: checked, and already in the form in which devices will read it.
public struct Envelope: Hashable, Sendable {
    public var id: MessageID
    /// The JSON object of the stream's `data:` line, in canonical camelCase, without line breaks.
    public var event: [UInt8]
    /// The first present of android `collapse_key`, `apns-collapse-id`, webpush `Topic`; empty for none.
    public var collapseKey: [UInt8]
    /// When the message was accepted, by the clock of the partition that has it; a gateway says when it was
    /// sent. From `sent` and the time to live on, a way takes the message to nobody.
    public var sent: WallTime
    public var times: TimesToLive

    public init(
        id: MessageID, event: [UInt8], collapseKey: [UInt8] = [], sent: WallTime, times: TimesToLive
    ) {
        self.id = id
        self.event = event
        self.collapseKey = collapseKey
        self.sent = sent
        self.times = times
    }

    /// With the same time to live on each way.
    public init(id: MessageID, event: [UInt8], collapseKey: [UInt8] = [], sent: WallTime, ttlSeconds: UInt32)
    {
        self.init(
            id: id, event: event, collapseKey: collapseKey, sent: sent, times: TimesToLive(ttlSeconds))
    }

    /// When the message ends that may wait this many seconds.
    public func end(_ seconds: UInt32) -> WallTime {
        WallTime(milliseconds: sent.milliseconds + Int64(seconds) * 1000)
    }
}
