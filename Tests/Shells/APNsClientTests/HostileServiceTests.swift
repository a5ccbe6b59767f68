import APNsClient
import PushScheduling
import PushStandIn
import Testing

@Suite("A service that is not Apple's, or not well", .timeLimit(.minutes(5)))
struct HostileServiceTests {
    /// A request to a service that cannot be reached, and why it cannot.
    private func unreachable(_ pool: APNsPool, _ request: APNsRequest) async throws -> String {
        let sender = Sender()
        var request = request
        request.pool = pool
        sender.client.submit([request])
        try await wait { !sender.news.isEmpty }
        sender.client.stop()
        #expect(sender.all.map(\.notSent) == ["the client has stopped"])
        guard case .unreachable(let reason) = sender.news[0] else { return "\(sender.news)" }
        return reason
    }

    @Test("gets nothing where its certificate is not of the pool's authority")
    func authority() async throws {
        let (server, other) = (try await StandIn.start(), try await StandIn.start())
        var pool = server.pool()
        pool.caPEM = other.caPEM
        #expect(try await unreachable(pool, server.request()).contains("certificate verify failed"))
        pool.caPEM = nil
        #expect(try await unreachable(pool, server.request()).contains("certificate verify failed"))
        #expect(server.seen.requests.isEmpty)
    }

    @Test("gets nothing where its certificate has another name", arguments: ["localhost", "127.0.0.1"])
    func name(host: String) async throws {
        let server = try await StandIn.start(options: { $0.host = "elsewhere.example" })
        let reason = try await unreachable(server.pool(host: host), server.request())
        #expect(reason.contains("mismatch"))
        #expect(server.seen.requests.isEmpty)
    }

    @Test("gets requests at an address that its certificate has")
    func address() async throws {
        let server = try await StandIn.start(options: { $0.host = "127.0.0.1" })
        let request = server.request(pool: server.pool(host: "127.0.0.1"))
        #expect(try await Sender().answer(request).status == 200)
        #expect(server.seen.requests[0][":authority"] == "127.0.0.1:\(server.port)")
    }

    @Test("gets nothing where it does not choose HTTP/2")
    func protocolName() async throws {
        let server = try await StandIn.start(options: { $0.version = .http1 })
        let reason = try await unreachable(server.pool(), server.request())
        #expect(reason == "the service chose no protocol instead of HTTP/2 (ALPN h2)")
    }

    @Test("that nobody runs, or whose name nobody knows, is told as unreachable")
    func nobody() async throws {
        let server = try await StandIn.start()
        var pool = server.pool()
        pool.port = 1
        #expect(try await unreachable(pool, server.request()) == "Connection refused")
        pool.caPEM = "no PEM"
        #expect(try await unreachable(pool, server.request()).contains("no certificate"))
        pool = server.pool(host: "nobody.invalid")
        #expect(try await unreachable(pool, server.request()).contains("nobody.invalid"))
    }

    @Test("that nobody runs is tried again, and requests wait meanwhile")
    func triedAgain() async throws {
        let first = try await StandIn.start()
        let pool = first.pool()
        try await first.stop()
        let sender = Sender()
        sender.client.submit([first.request(pool: pool)])
        try await wait { sender.news.count > 2 }
        #expect(sender.all.isEmpty)
        sender.client.stop()
        #expect(sender.all.first?.notSent == "the client has stopped")
    }

    /// An HTTP/2 frame (RFC 9113 §4.1).
    private static func frame(
        _ type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []
    ) -> [UInt8] {
        let count = payload.count
        return [UInt8(count >> 16 & 255), UInt8(count >> 8 & 255), UInt8(count & 255), type, flags]
            + (0..<4).map { UInt8(truncatingIfNeeded: stream >> (24 - 8 * $0)) } + payload
    }

    private static func many(_ count: Int, _ frame: [UInt8]) -> [UInt8] {
        (0..<count).flatMap { _ in frame }
    }

    /// What the service sends as its answer to the request on stream 3.
    static let attacks: [(name: String, bytes: [UInt8])] = [
        ("SETTINGS", many(20_000, frame(4))),
        ("PING", many(20_000, frame(6, [UInt8](repeating: 0, count: 8)))),
        ("WINDOW_UPDATE", many(20_000, frame(8, [0, 0, 0, 1]))),
        ("empty DATA", frame(1, flags: 4, stream: 3, [0x88]) + many(20_000, frame(0, stream: 3))),
        ("frames of an unknown type", many(20_000, frame(0xFA))),
        ("RST_STREAM of nothing", many(20_000, frame(3, stream: 1, [0, 0, 0, 8]))),
        ("interim answers", many(20_000, frame(1, flags: 4, stream: 3, [8, 3, 0x31, 0x30, 0x33]))),
        (
            "an endless header block",
            frame(1, stream: 3, [0x88])
                + many(
                    2_000,
                    frame(9, stream: 3, [0x40, 1, 0x61, 0x7F, 0] + [UInt8](repeating: 0x61, count: 127)))
        ),
        ("GOAWAY", many(20_000, frame(7, [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]))),
        ("a pushed request", frame(5, flags: 4, stream: 3, [0, 0, 0, 2, 0x82])),
        ("an answer on a stream that nobody opened", frame(1, flags: 5, stream: 99, [0x88])),
        ("a long frame", frame(0, stream: 3, [UInt8](repeating: 0, count: 20_000))),
        ("a status that is none", frame(1, flags: 5, stream: 3, [8, 1, 0x78])),
        ("an answer without a status", frame(1, flags: 5, stream: 3, [0, 1, 0x61, 1, 0x62])),
        ("a broken header block", frame(1, flags: 5, stream: 3, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])),
        ("no HTTP/2", Array("HTTP/1.1 200 OK\r\n\r\n".utf8)),
    ]

    @Test("costs the client a connection at most, and each request has one answer", arguments: attacks)
    func attack(name: String, bytes: [UInt8]) async throws {
        let server = try await StandIn.start { $0.device == "1" ? .raw(bytes) : .answer(200) }
        let sender = Sender { $0.answerMax = .seconds(10) }
        #expect(try await sender.answer(server.request(device: "0")).status == 200)
        let response = try await sender.answer(server.request(device: "1"))
        #expect(response.failure != nil || response.status == 200, "\(name): \(response)")
        #expect(try await sender.answer(server.request(device: "2")).status == 200)
        #expect(server.devices == ["0", "1", "2"])
        #expect(sender.all.count == 3)
    }

    @Test(
        "that sends random bytes costs the client a connection at most",
        arguments: 1...20 as ClosedRange<UInt64>)
    func random(seed: UInt64) async throws {
        var dice = SeededNumbers(state: seed)
        let bytes = (0..<2_000).map { _ in UInt8(truncatingIfNeeded: dice.next() >> 32) }
        try await attack(name: "seed \(seed)", bytes: bytes)
    }

    private struct SeededNumbers {
        var state: UInt64
        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state
        }
    }
}
