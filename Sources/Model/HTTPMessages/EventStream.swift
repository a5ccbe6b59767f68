/// Answers that are streams of events (WHATWG HTML §9.2).
public enum EventStream {
    /// Fields of a stream's answer.
    public static let fields: [(name: String, value: String)] = [
        ("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-store"),
        ("access-control-allow-origin", "*"), ("x-accel-buffering", "no"),
    ]

    /// The reason why the server ends the client's stream. An `EventSource` connects again by itself unless
    /// the page closes it.
    public static func ending(_ event: String, retryMilliseconds: Int? = nil) -> [UInt8] {
        var out = Array("event: \(event)\ndata: {}\n".utf8)
        if let retryMilliseconds { out += Array("retry: \(retryMilliseconds)\n".utf8) }
        out.append(0x0A)
        return out
    }

    /// Milliseconds after which a client may come back to a server that does not know better.
    private static let retryMilliseconds = 2000

    /// The refusal of a stream to which the client may come back: an `EventSource` gives up for good with any
    /// answer but 200. `wait`: in milliseconds.
    public static func refusal(wait: Int = 0) -> HTTPResponse {
        HTTPResponse(
            status: 200, fields: fields,
            body: ending("reconnect", retryMilliseconds: max(wait, retryMilliseconds)))
    }
}

extension HTTPRequest {
    /// Whether the client reads nothing but a stream of events, as an `EventSource` and libraries like it.
    public var wantsOnlyEvents: Bool {
        method == .get && fields["accept"]?.elementsEqual("text/event-stream".utf8) ?? false
    }
}
