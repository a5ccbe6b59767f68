import Model

/// A client's side of HTTP/1.1 that asks for one stream and reads it until it ends.
final class HTTP1Connection: LoadConnection {
    private static let headBytesMax = 16 << 10

    private unowned let handler: any StreamHandler
    private let tag: Int
    private let began: UInt64
    private var status = 0
    private var head: [UInt8] = []
    private var isInBody = false
    private var chunks: ChunkReader?

    init(
        _ poller: Poller, to address: ServerAddress, path: String, fields: [(String, String)], tag: Int,
        handler: any StreamHandler
    ) throws {
        self.handler = handler
        self.tag = tag
        began = MonotonicClock.now()
        try super.init(poller, to: address)
        var text =
            "GET \(path) HTTP/1.1\r\nhost: \(address.authority)\r\naccept: text/event-stream, application/json\r\n"
        for (name, value) in fields { text += "\(name): \(value)\r\n" }
        output = Array((text + "\r\n").utf8)
    }

    override func receive(_ bytes: UnsafeRawBufferPointer) {
        guard !isInBody else { return body(bytes) }
        let before = head.count
        head.append(contentsOf: bytes)
        guard let end = HTTP1Connection.end(of: head) else {
            if head.count > HTTP1Connection.headBytesMax { fail() }
            return
        }
        let text = String(decoding: head[..<end], as: UTF8.self).lowercased()
        head = []
        isInBody = true
        status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        if text.contains("transfer-encoding: chunked") { chunks = ChunkReader() }
        handler.opened(tag, status: status)
        body(UnsafeRawBufferPointer(rebasing: bytes[(end - before)...]))
    }

    override func lost() { handler.ended(tag, status: 0, began: began, on: self) }

    private func body(_ bytes: UnsafeRawBufferPointer) {
        guard chunks != nil else { return handler.received(tag, bytes) }
        let isSane = chunks?.read(bytes) { handler.received(tag, $0) } ?? true
        if !isSane { fail() }
    }

    /// The offset directly behind the blank line.
    private static func end(of head: [UInt8]) -> Int? {
        guard head.count >= 4 else { return nil }
        for index in 3..<head.count
        where head[index] == 10 && head[index - 1] == 13 && head[index - 2] == 10 && head[index - 3] == 13 {
            return index + 1
        }
        return nil
    }
}

/// Takes the chunked coding (RFC 9112 §7.1) off a body. Bytes may be cut anywhere.
struct ChunkReader {
    private enum State {
        case size
        /// A chunk extension, or the CR: skipped until the LF.
        case sizeEnd
        case data
        /// CR LF behind the data.
        case dataEnd
    }
    private static let sizeMax = 1 << 40
    private var state = State.size
    private var size = 0

    /// False if the coding is malformed.
    mutating func read(_ bytes: UnsafeRawBufferPointer, _ onData: (UnsafeRawBufferPointer) -> Void) -> Bool {
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            switch state {
            case .size:
                index += 1
                if let digit = Hex.value(byte) {
                    size = size << 4 | Int(digit)
                    if size > ChunkReader.sizeMax { return false }
                } else if byte == 10 {
                    state = size > 0 ? .data : .dataEnd
                } else if byte == 13 || byte == UInt8(ascii: ";") || byte == UInt8(ascii: " ") {
                    state = .sizeEnd
                } else {
                    return false
                }
            case .sizeEnd:
                index += 1
                if byte == 10 { state = size > 0 ? .data : .dataEnd }
            case .data:
                let count = min(size, bytes.count - index)
                onData(UnsafeRawBufferPointer(rebasing: bytes[index..<(index + count)]))
                index += count
                size -= count
                if size == 0 { state = .dataEnd }
            case .dataEnd:
                index += 1
                if byte == 10 { state = .size } else if byte != 13 { return false }
            }
        }
        return true
    }
}
