import HTTP2

/// The header fields of a request, made once and used often. A connection holds them until the stream has
/// ended.
public final class RequestHead {
    private let fields: SharedHeaderBlock
    var block: HeaderBlock { fields.block }
    let hasBody: Bool

    public init(
        _ method: String, _ path: String, authority: String, fields: [(String, String)] = []
    ) {
        hasBody = method == "POST"
        let pseudo = [
            (":method", method), (":scheme", "http"), (":authority", authority), (":path", path),
        ]
        self.fields = SharedHeaderBlock(pseudo + fields)
    }
}
