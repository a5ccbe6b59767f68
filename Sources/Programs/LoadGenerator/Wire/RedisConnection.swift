import Glibc

/// Receives the replies of a redis server.
protocol RedisHandler: AnyObject {
    /// Called with a whole reply. `payload` is the last string of an array of three (a published message),
    /// else nil.
    func replied(_ tag: Int, payload: UnsafeRawBufferPointer?, isError: Bool, on connection: RedisConnection)
    func redisLost(_ tag: Int)
}

/// A client's side of RESP2 (redis.io, "Redis serialization protocol"). Commands are arrays of strings.
/// Replies are lines, strings, or arrays of these; the commands that are used here need no more.
final class RedisConnection: LoadConnection {
    private unowned let handler: any RedisHandler
    private let tag: Int
    private var carried: [UInt8] = []

    init(_ poller: Poller, to address: ServerAddress, tag: Int, handler: any RedisHandler) throws {
        self.handler = handler
        self.tag = tag
        try super.init(poller, to: address)
    }

    func command(_ words: [String]) {
        output.append(contentsOf: "*\(words.count)\r\n".utf8)
        for word in words {
            output.append(contentsOf: "$\(word.utf8.count)\r\n".utf8)
            output.append(contentsOf: word.utf8)
            output.append(contentsOf: [13, 10])
        }
        touch()
    }

    override func receive(_ bytes: UnsafeRawBufferPointer) {
        if carried.isEmpty {
            let taken = consume(bytes)
            if taken < bytes.count { carried.append(contentsOf: bytes[taken...]) }
        } else {
            carried.append(contentsOf: bytes)
            let taken = carried.withUnsafeBytes { consume($0) }
            carried.removeFirst(taken)
        }
    }

    override func lost() { handler.redisLost(tag) }

    /// Handles all whole replies; returns the number of bytes that they had.
    private func consume(_ bytes: UnsafeRawBufferPointer) -> Int {
        var reader = RedisReader(bytes)
        var taken = 0
        while let reply = reader.next() {
            taken = reader.offset
            handler.replied(tag, payload: reply.payload, isError: reply.isError, on: self)
            guard isOpen else { return bytes.count }
        }
        if reader.isBroken { fail() }
        return taken
    }
}

/// Reads replies from bytes.
struct RedisReader {
    private let bytes: UnsafeRawBufferPointer
    private(set) var offset = 0
    private(set) var isBroken = false

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    struct Reply {
        var payload: UnsafeRawBufferPointer?
        var isError = false
    }

    /// The next whole reply; nil if it has not come whole yet, or is broken.
    mutating func next() -> Reply? {
        guard let (kind, count) = line() else { return nil }
        switch kind {
        case UInt8(ascii: "+"), UInt8(ascii: ":"): return Reply()
        case UInt8(ascii: "-"): return Reply(isError: true)
        case UInt8(ascii: "$"): return string(count) == nil ? nil : Reply()
        case UInt8(ascii: "*"):
            var last: UnsafeRawBufferPointer?
            guard count <= 16 else { return broken() }
            for _ in 0..<max(count, 0) {
                last = nil
                guard let (kind, length) = line() else { return nil }
                guard kind == UInt8(ascii: "$") else { continue }
                guard let text = string(length) else { return nil }
                last = text
            }
            return Reply(payload: count == 3 ? last : nil)
        default: return broken()
        }
    }

    private mutating func broken() -> Reply? {
        isBroken = true
        return nil
    }

    /// A line's first byte and the number behind it; 0 if there is no number.
    private mutating func line() -> (UInt8, Int)? {
        guard let base = bytes.baseAddress, offset < bytes.count,
            let found = memchr(base + offset, 10, bytes.count - offset)
        else { return nil }
        let end = UnsafeRawPointer(found) - base
        let kind = bytes[offset]
        var number = 0
        for byte in bytes[(offset + 1)..<max(end, offset + 1)] {
            guard (48...57).contains(byte), number < 1 << 40 else { break }
            number = number * 10 + Int(byte - 48)
        }
        if end > offset + 1, bytes[offset + 1] == UInt8(ascii: "-") { number = -1 }
        offset = end + 1
        return (kind, number)
    }

    private mutating func string(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count >= 0 else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        guard bytes.count - offset >= count + 2 else { return nil }
        defer { offset += count + 2 }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + count)])
    }
}
