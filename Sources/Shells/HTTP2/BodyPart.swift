/// The next bytes of a body that is to be sent.
public enum BodyPart {
    case some(Int)
    case last(Int)
    /// There are none yet. The owner says with `HTTP2Session.resume` that there are.
    case later

    /// Copies the next bytes of a whole body, of which `sent` bytes are sent.
    public static func next(
        of body: [UInt8], sent: inout Int, into target: UnsafeMutableBufferPointer<UInt8>
    ) -> BodyPart {
        let count = min(target.count, body.count - sent)
        body.withUnsafeBufferPointer { source in
            if let source = source.baseAddress, let target = target.baseAddress {
                target.update(from: source + sent, count: count)
            }
        }
        sent += count
        return sent == body.count ? .last(count) : .some(count)
    }
}
