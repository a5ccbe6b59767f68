/// Reads server-sent events from bytes as they come.
///
/// Source: WHATWG HTML, "Server-sent events", 9.2.6. Comments make no event; the caller counts any byte as
/// a sign of life.
struct EventParser {
    struct Event: Equatable {
        var id: String?
        /// `message` if the stream names none.
        var type = "message"
        var data = ""
        var retryMilliseconds: Int?
    }

    /// The event's lines are longer than any event of the server.
    struct TooLong: Error {}

    /// The bound of one event's bytes.
    static let eventBytesMax = 1 << 20

    private var line: [UInt8] = []
    private var eventBytes = 0
    private var wasCarriageReturn = false
    private var isFirstLine = true
    private var event = Event()
    private var hasType = false
    private var dataLines: [String] = []

    /// Throws if an event passes its bound; the parser is then of no use.
    mutating func read(_ bytes: some Sequence<UInt8>) throws(TooLong) -> [Event] {
        var found: [Event] = []
        for byte in bytes {
            let isSecondOfPair = wasCarriageReturn && byte == UInt8(ascii: "\n")
            wasCarriageReturn = byte == UInt8(ascii: "\r")
            if isSecondOfPair { continue }
            if byte == UInt8(ascii: "\n") || wasCarriageReturn {
                if let event = endLine() { found.append(event) }
            } else {
                line.append(byte)
                eventBytes += 1
                guard eventBytes <= EventParser.eventBytesMax else { throw TooLong() }
            }
        }
        return found
    }

    /// Returns the event that an empty line ends.
    private mutating func endLine() -> Event? {
        defer { line.removeAll(keepingCapacity: true) }
        var bytes = line[...]
        if isFirstLine, bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
        isFirstLine = false
        if bytes.isEmpty { return endEvent() }
        if bytes.first == UInt8(ascii: ":") {
            // Comments belong to no event.
            eventBytes -= line.count
            return nil
        }
        let colon = bytes.firstIndex(of: UInt8(ascii: ":"))
        let name = String(decoding: bytes[..<(colon ?? bytes.endIndex)], as: UTF8.self)
        var value = colon.map { bytes[bytes.index(after: $0)...] } ?? []
        if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
        processField(name, String(decoding: value, as: UTF8.self))
        return nil
    }

    private mutating func processField(_ name: String, _ value: String) {
        switch name {
        case "id": if !value.utf8.contains(0) { event.id = value }
        case "event":
            event.type = value
            hasType = !value.isEmpty
        case "data": dataLines.append(value)
        case "retry":
            let isNumber = value.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            if isNumber { event.retryMilliseconds = Int(value) }
        default: break
        }
    }

    private mutating func endEvent() -> Event? {
        defer {
            event = Event()
            hasType = false
            dataLines = []
            eventBytes = 0
        }
        guard !dataLines.isEmpty else { return nil }
        if !hasType { event.type = "message" }
        event.data = dataLines.joined(separator: "\n")
        return event
    }
}
