import Foundation
import HTTPMessages
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import Edge

@Suite("WebSockets", .serialized) struct WebSocketTests {
    /// Answers each message with its length, and a message `close` by a close.
    private final class Handler: RequestHandler {
        let ended: Atomic<Int>
        init() { ended = Atomic(0) }
        func share(of request: HTTPRequest) -> UInt64 { 0 }
        func handle(_ request: HTTPRequest, _ responder: Responder) {
            if !responder.openSocket(subprotocol: "push-notification") {
                responder.respond(HTTPResponse(status: 426))
            }
        }
        func received(_ message: [UInt8], _ responder: Responder) {
            if message == Array("close".utf8) { return responder.endSocket(code: 4774) }
            _ = responder.write(SharedBytes(Array("\(message.count)".utf8)))
        }
        func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission { .upTo(1024) }
        func contentBytesMax(of request: HTTPRequest) -> Int { 1024 }
        func cancelled(_ responder: Responder) { ended.add(1, ordering: .relaxed) }
    }

    private final class Server {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let edge: Edge
        let port: Int
        init(_ configuration: EdgeConfiguration = EdgeConfiguration()) throws {
            edge = try Edge(group: group, configuration: configuration) { _ in Handler() }
            port = try edge.listen(host: "127.0.0.1", port: 0)
        }
        func end() { try? group.syncShutdownGracefully() }
    }

    /// The key and its answer are those of RFC 6455 §1.3.
    private static let handshake = [
        "GET /push HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: keep-alive, Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: push-notification",
    ]

    private func request(_ lines: [String] = handshake) -> String {
        lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// A masked frame of a client.
    private func frame(_ head: UInt8, _ payload: [UInt8], isMasked: Bool = true) -> [UInt8] {
        let mask: [UInt8] = [1, 2, 3, 4]
        let bit: UInt8 = isMasked ? 0x80 : 0
        var out = [head]
        if payload.count < 126 {
            out.append(bit | UInt8(payload.count))
        } else {
            out += [bit | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        }
        guard isMasked else { return out + payload }
        return out + mask + payload.enumerated().map { $1 ^ mask[$0 & 3] }
    }

    private func connect(_ server: Server) throws -> RawClient {
        let client = try RawClient(port: server.port)
        client.send(request())
        #expect(client.read { $0.text.contains("\r\n\r\n") })
        return client
    }

    /// What came behind the answer to the handshake.
    private func frames(_ client: RawClient) -> [UInt8] {
        guard let end = client.text.firstRange(of: "\r\n\r\n") else { return [] }
        return Array(
            client.received[client.text.utf8.distance(from: client.text.startIndex, to: end.upperBound)...])
    }

    @Test("begin with the answer of RFC 6455, and carry messages in both directions")
    func messages() throws {
        let server = try Server()
        defer { server.end() }
        let client = try connect(server)
        #expect(client.text.hasPrefix("HTTP/1.1 101 "))
        let lower = client.text.lowercased()
        #expect(client.text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
        #expect(lower.contains("sec-websocket-protocol: push-notification"))
        #expect(!lower.contains("transfer-encoding") && !lower.contains("content-length"))
        client.send(frame(0x81, Array("hello".utf8)))
        #expect(client.read { frames($0) == [0x81, 1, UInt8(ascii: "5")] })
        // A message in three frames, with a PING between.
        client.send(frame(0x01, [1, 2]) + frame(0x89, [9]) + frame(0x00, [3]) + frame(0x80, [4]))
        #expect(client.read { frames($0).count == 9 })
        #expect(frames(client)[3...].contains(0x8A) && frames(client)[3...].contains(UInt8(ascii: "4")))
        client.send(frame(0x81, Array("close".utf8)))
        #expect(client.read { frames($0).suffix(4) == [0x88, 2, 0x12, 0xA6] })
        client.send(frame(0x88, [0x12, 0xA6]))
        #expect(client.read())
    }

    @Test(
        "end with a code where a frame breaks a rule",
        arguments: [
            ([0x81, 1, 65], 1002), ([0xC1, 0x81, 0, 0, 0, 0, 65], 1002),
            ([0x82, 0x81, 0, 0, 0, 0, 65], 1003),
            ([0x81, 0xFE, 0x40, 0x01, 0, 0, 0, 0], 1009), ([0x80, 0x80, 0, 0, 0, 0], 1002),
            ([0x09, 0x80, 0, 0, 0, 0], 1002), ([0x89, 0xFE, 0, 126, 0, 0, 0, 0], 1002),
        ] as [([UInt8], Int)])
    func faults(bytes: [UInt8], code: Int) throws {
        let server = try Server()
        defer { server.end() }
        let client = try connect(server)
        client.send(bytes)
        #expect(client.read { frames($0).count >= 4 })
        #expect(frames(client) == [0x88, 2, UInt8(code >> 8), UInt8(code & 0xFF)], "\(bytes)")
    }

    @Test(
        "answer a CLOSE, and one that breaks the rules with 1002 (RFC 6455 §5.5.1, §7.4)",
        arguments: [
            ([], 1000), ([0x03, 0xE8], 1000), ([0x0B, 0xB8, 65], 1000), ([0x13, 0x87], 1000), ([3], 1002),
            ([0x03, 0xE7], 1002), ([0x03, 0xED], 1002), ([0x03, 0xF7], 1002), ([0x13, 0x88], 1002),
            ([0x03, 0xE8, 0xFF], 1002), ([0, 0], 1002),
        ] as [([UInt8], Int)])
    func closes(payload: [UInt8], code: Int) throws {
        let server = try Server()
        defer { server.end() }
        let client = try connect(server)
        client.send(frame(0x88, payload))
        #expect(client.read())
        #expect(frames(client) == [0x88, 2, UInt8(code >> 8), UInt8(code & 0xFF)])
    }

    @Test("end where a message is longer than may be, in one frame or in many")
    func tooLong() throws {
        let server = try Server(.with { $0.socketMessageBytesMax = 1000 })
        defer { server.end() }
        let whole = try connect(server)
        whole.send(frame(0x81, [UInt8](repeating: 65, count: 1001)))
        #expect(whole.read { frames($0).count >= 4 } && frames(whole) == [0x88, 2, 0x03, 0xF1])
        let parts = try connect(server)
        parts.send(frame(0x01, [UInt8](repeating: 65, count: 600)))
        parts.send(frame(0x80, [UInt8](repeating: 65, count: 600)))
        #expect(parts.read { frames($0).count >= 4 } && frames(parts) == [0x88, 2, 0x03, 0xF1])
        let fitting = try connect(server)
        fitting.send(frame(0x81, [UInt8](repeating: 65, count: 1000)))
        #expect(fitting.read { frames($0).starts(with: [0x81, 4]) })
    }

    @Test("end where the rest of a message does not come in its time, whatever comes between")
    func endless() throws {
        let server = try Server(.with { $0.bodySeconds = 1 })
        defer { server.end() }
        let client = try connect(server)
        client.send(frame(0x81, [65]))
        #expect(client.read { frames($0).count == 3 })
        client.send(frame(0x01, [1, 2]))
        var second = 0
        while second < 6, frames(client).suffix(4) != [0x88, 2, 0x03, 0xF0] {
            client.send(frame(0x89, [UInt8(second)]))
            let count = frames(client).count
            _ = client.read { frames($0).count > count }
            Thread.sleep(forTimeInterval: 0.5)
            second += 1
        }
        #expect(frames(client).suffix(4) == [0x88, 2, 0x03, 0xF0])
    }

    @Test("end where all together have no room for the parts of a message")
    func noRoomForParts() throws {
        let server = try Server(.with { $0.bodyBytesOfAllMax = 0 })
        defer { server.end() }
        let client = try connect(server)
        // What fits into the bytes that each connection has for itself.
        client.send(frame(0x01, [UInt8](repeating: 65, count: 4000)) + frame(0x80, [65]))
        #expect(client.read { frames($0) == [0x81, 4] + Array("4001".utf8) })
        client.send(frame(0x01, [UInt8](repeating: 65, count: 5000)))
        #expect(client.read { frames($0).suffix(4) == [0x88, 2, 0x03, 0xF5] })
    }

    @Test("end where a client floods the server with PINGs")
    func flood() throws {
        let server = try Server()
        defer { server.end() }
        let client = try connect(server)
        let ping = frame(0x89, [])
        client.send((0..<300).flatMap { _ in ping })
        #expect(client.read { frames($0).suffix(4) == [0x88, 2, 0x03, 0xF0] })
    }

    @Test(
        "are not opened by a request of another form",
        arguments: [
            ("Upgrade: websocket", "Upgrade: h2c"),
            ("Connection: keep-alive, Upgrade", "Connection: keep-alive"),
            ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8"), ("GET /push", "HEAD /push"),
            ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Key: short"),
            ("Sec-WebSocket-Version: 13", "X-A: b"),
        ])
    func handshakes(line: String, instead: String) throws {
        let server = try Server()
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(request(WebSocketTests.handshake.map { $0.replacing(line, with: instead) }))
        #expect(client.read())
        #expect(client.text.hasPrefix("HTTP/1.1 426 "), "\(instead)")
    }

    @Test("answer only what follows the answer to the handshake, and lose a connection without a trace")
    func early() throws {
        let server = try Server()
        defer { server.end() }
        for _ in 0..<20 {
            let client = try RawClient(port: server.port)
            client.send(Array(request().utf8) + frame(0x81, [65]))
            #expect(client.read { $0.text.hasPrefix("HTTP/1.1 101 ") })
        }
        let client = try connect(server)
        client.send(frame(0x81, [65]))
        #expect(client.read { frames($0) == [0x81, 1, UInt8(ascii: "1")] })
    }

    @Test("have a clock for the first message, for silence, for a reader and for the last answer")
    func clocks() {
        let configuration = EdgeConfiguration()
        var silent = WebSocketClocks(configuration, second: 0)
        #expect(silent.sweep(30, stuck: false) == .ping && silent.sweep(31, stuck: false) == .end)
        var idle = WebSocketClocks(configuration, second: 0)
        idle.noteFrame(second: 1, isMessage: true)
        #expect(idle.sweep(26, stuck: false) == .none && idle.sweep(27, stuck: false) == .ping)
        #expect(idle.sweep(87, stuck: false) == .none && idle.sweep(88, stuck: false) == .end)
        idle.noteFrame(second: 88, isMessage: false)
        #expect(idle.sweep(113, stuck: false) == .none && idle.sweep(114, stuck: false) == .ping)
        var stuck = WebSocketClocks(configuration, second: 0)
        stuck.noteFrame(second: 1, isMessage: true)
        #expect(stuck.sweep(2, stuck: true) == .none && stuck.sweep(62, stuck: true) == .ping)
        #expect(stuck.sweep(63, stuck: true) == .drop)
        var parted = WebSocketClocks(configuration, second: 0)
        parted.noteFrame(second: 1, isMessage: true)
        parted.notePart(second: 5, isLast: false)
        for second in 6...35 {
            // A PING, and another part.
            parted.noteFrame(second: second, isMessage: false)
            parted.notePart(second: second, isLast: false)
            #expect(parted.sweep(second, stuck: false) == .none)
        }
        #expect(parted.sweep(36, stuck: false) == .refuse)
        parted.notePart(second: 36, isLast: true)
        #expect(parted.sweep(37, stuck: false) == .none)
        stuck.noteClosing(second: 64)
        #expect(stuck.sweep(65, stuck: false) == .none && stuck.sweep(66, stuck: false) == .drop)
    }
}
