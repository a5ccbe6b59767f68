/// A message as it travels and is stored: checked, and already in the form in which devices will read it.
public struct Envelope: Hashable, Sendable {
    public var id: MessageID
    /// The JSON object of the stream's `data:` line, in canonical camelCase, without line breaks.
    public var event: [UInt8]
    /// The first present of android `collapse_key`, `apns-collapse-id`, webpush `Topic`; empty for none.
    public var collapseKey: [UInt8]
    /// When the message was sent; from `sent + ttl` on it goes to nobody.
    public var sent: WallTime
    /// Whole seconds, 0...2,419,200. 0 is now or never: only for devices that listen at the moment of the
    /// send.
    public var ttlSeconds: UInt32

    public init(id: MessageID, event: [UInt8], collapseKey: [UInt8] = [], sent: WallTime, ttlSeconds: UInt32)
    {
        self.id = id
        self.event = event
        self.collapseKey = collapseKey
        self.sent = sent
        self.ttlSeconds = ttlSeconds
    }

    public var expires: WallTime { WallTime(milliseconds: sent.milliseconds + Int64(ttlSeconds) * 1000) }
}
