import Edge
import Glibc
import HTTPMessages
import Listener
import NIOCore
import NIOPosix
import Synchronization
import Testing

/// A client that sends and reads bytes, and knows no protocol.
final class RawClient {
    private let descriptor: Int32
    private(set) var received: [UInt8] = []
    /// Whether the server has closed the connection.
    private(set) var isClosed = false

    init(port: Int) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == 0)
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    deinit { close(descriptor) }

    var text: String { String(decoding: received, as: UTF8.self) }

    func send(_ text: String) { send(Array(text.utf8)) }

    /// Sends until all bytes are out, or the server takes nothing for `patience` seconds, or the server has
    /// closed. Returns how many bytes went out.
    @discardableResult
    func send(_ bytes: [UInt8], patience: Double = 5) -> Int {
        var sent = 0
        while sent < bytes.count, !isClosed {
            let count = bytes[sent...].withUnsafeBytes { raw in
                Glibc.send(descriptor, raw.baseAddress, raw.count, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                sent += count
            } else if errno != EAGAIN || !wait(Int16(POLLOUT), patience) {
                return sent
            }
        }
        return sent
    }

    private func wait(_ events: Int16, _ seconds: Double) -> Bool {
        var poll = pollfd(fd: descriptor, events: events, revents: 0)
        return Glibc.poll(&poll, 1, Int32(seconds * 1000)) > 0
    }

    /// Reads until `isEnough`. Returns false where the connection ends before that, or `seconds` are over.
    @discardableResult
    func read(within seconds: Double = 20, until isEnough: (RawClient) -> Bool = { $0.isClosed }) -> Bool {
        let clock = ContinuousClock()
        let end = clock.now + .milliseconds(Int(seconds * 1000))
        var buffer = [UInt8](repeating: 0, count: 65536)
        while !isEnough(self) {
            guard !isClosed, clock.now < end else { return false }
            guard wait(Int16(POLLIN), 0.05) else { continue }
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count > 0 { received.append(contentsOf: buffer.prefix(count)) }
            if count == 0 || (count < 0 && errno != EAGAIN) { isClosed = true }
        }
        return true
    }

    /// How often `wanted` came.
    func count(of wanted: String) -> Int { text.components(of: wanted) }
}

extension String {
    fileprivate func components(of wanted: String) -> Int {
        var count = 0
        var rest = self[...]
        while let found = rest.firstRange(of: wanted) {
            count += 1
            rest = rest[found.upperBound...]
        }
        return count
    }
}

/// A server with one loop, on a port of the loopback interface. A closure gives its answers.
final class RawServer {
    typealias Answer = @Sendable (HTTPRequest, Responder) -> Void
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let edge: Edge
    let port: Int
    let asked = Counter()

    /// A request's share: the first six bytes of its path as a number.
    static func share(of request: HTTPRequest) -> UInt64 {
        request.target.prefix(6).reduce(0) { $0 << 8 | UInt64($1) }
    }

    final class Counter: Sendable {
        let requests = Atomic<Int>(0)
        var count: Int { requests.load(ordering: .relaxed) }
    }

    private final class Handler: RequestHandler {
        let answer: Answer
        let asked: Counter
        let bodyMax: Int
        init(_ answer: @escaping Answer, _ asked: Counter, _ bodyMax: Int) {
            self.answer = answer
            self.asked = asked
            self.bodyMax = bodyMax
        }
        func share(of request: HTTPRequest) -> UInt64 { RawServer.share(of: request) }
        func handle(_ request: HTTPRequest, _ responder: Responder) {
            asked.requests.add(1, ordering: .relaxed)
            answer(request, responder)
        }
        func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission { .upTo(bodyMax) }
        func contentBytesMax(of request: HTTPRequest) -> Int { bodyMax }
    }

    init(
        _ configuration: EdgeConfiguration = EdgeConfiguration(), bodyMax: Int = 64 << 10,
        gate: ListenerGate = ListenerGate(ConnectionGate.Bounds()),
        answer: @escaping Answer = { $1.respond(HTTPResponse(status: 200, body: Array("ok\n".utf8))) }
    ) throws {
        let asked = asked
        edge = try Edge(group: group, configuration: configuration, gate: gate) { _ in
            Handler(answer, asked, bodyMax)
        }
        port = try edge.listen(host: "127.0.0.1", port: 0)
    }

    func end() { try? group.syncShutdownGracefully() }
}

extension EdgeConfiguration {
    static func with(_ change: (inout EdgeConfiguration) -> Void) -> EdgeConfiguration {
        var configuration = EdgeConfiguration()
        change(&configuration)
        return configuration
    }
}

/// HTTP/2 as bytes: frames, and header blocks without indexing.
enum Frames {
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(4)

    static func frame(_ kind: UInt8, flags: UInt8 = 0, stream: Int = 0, _ payload: [UInt8] = []) -> [UInt8] {
        let size = payload.count
        let head = [UInt8(size >> 16 & 0xFF), UInt8(size >> 8 & 0xFF), UInt8(size & 0xFF), kind, flags]
        return head + [24, 16, 8, 0].map { UInt8(stream >> $0 & 0xFF) } + payload
    }

    static func headers(
        _ stream: Int, _ method: String, _ path: String, isEnd: Bool, _ extra: [(String, String)] = []
    ) -> [UInt8] {
        let fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x")] + extra
        var block: [UInt8] = []
        for (name, value) in fields {
            block += [0, UInt8(name.utf8.count)] + Array(name.utf8)
            block += [UInt8(value.utf8.count)] + Array(value.utf8)
        }
        return frame(1, flags: isEnd ? 5 : 4, stream: stream, block)
    }

    static func setting(_ key: UInt8, _ value: Int) -> [UInt8] {
        frame(4, [0, key] + [24, 16, 8, 0].map { UInt8(value >> $0 & 0xFF) })
    }

    /// The whole frames in `bytes`: kind, stream and payload.
    static func read(_ bytes: [UInt8]) -> [(kind: UInt8, stream: Int, payload: ArraySlice<UInt8>)] {
        var found: [(kind: UInt8, stream: Int, payload: ArraySlice<UInt8>)] = []
        var index = 0
        while index + 9 <= bytes.count {
            let size = Int(bytes[index]) << 16 | Int(bytes[index + 1]) << 8 | Int(bytes[index + 2])
            let stream = bytes[(index + 5)..<(index + 9)].reduce(0) { $0 << 8 | Int($1) }
            guard index + 9 + size <= bytes.count else { break }
            found.append((bytes[index + 3], stream, bytes[(index + 9)..<(index + 9 + size)]))
            index += 9 + size
        }
        return found
    }
}
